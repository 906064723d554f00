"""How types are written in messages."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from typing import Any

from rillflow.graph.agreement import Filtered
from rillflow.graph.generics import limits_of, options_of, united
from rillflow.graph.handles import ActorHandle


def has_actor(annotation: Any) -> bool:
    """Whether a type is an `(actor, item)` pair."""
    arguments = typing.get_args(annotation)
    pair = typing.get_origin(annotation) is tuple and len(arguments) == 2
    return pair and any(option is ActorHandle for option in options_of(arguments[0]))


def name_of(annotation: Any) -> str:
    """How a type is written in a message, by short names.

    >>> name_of(int | None), name_of(list[Filtered])
    ('int | None', 'list[Filtered]')
    """
    if isinstance(annotation, Filtered):
        return name_of(annotation.whole)
    if annotation in (None, types.NoneType):
        return "None"
    if isinstance(annotation, typing.TypeVar) and (limits := limits_of(annotation)):
        return name_of(united(limits))
    options = options_of(annotation)
    if len(options) > 1:
        alone = [o for o in options if not _is_pair(o, options)]
        return " | ".join(name_of(option) for option in alone)
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    short = getattr(origin or annotation, "__name__", None)
    if short is None:
        return str(annotation)
    if not arguments:
        return str(short)
    return f"{short}[{', '.join(_argument(one) for one in arguments)}]"


def _argument(annotation: Any) -> str:
    if annotation is Ellipsis:
        return "..."
    if isinstance(annotation, list):
        return f"[{', '.join(_argument(one) for one in annotation)}]"
    return name_of(annotation)


def _is_pair(option: Any, options: Iterable[Any]) -> bool:
    """Whether an option is another one with its actor, which goes without saying."""
    inner = options_of(typing.get_args(option)[1]) if has_actor(option) else ()
    return bool(inner) and all(one in options for one in inner)
