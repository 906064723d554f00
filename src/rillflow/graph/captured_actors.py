"""Which groups of actors a callable holds: those it may send messages to."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

from rillflow.graph.handles import ActorHandle, Actors

_DEPTH = 3


def captured_groups(fn: Any) -> Iterator[Actors]:
    """Groups found in a callable's attributes, closure, bound object, arguments or containers."""
    if fn is not None:
        yield from _search(fn, _DEPTH)


def _search(value: Any, depth: int) -> Iterator[Actors]:
    if isinstance(value, Actors):
        yield value
    elif isinstance(value, ActorHandle):
        yield value.group
    elif depth > 0:
        for part in _parts(value):
            yield from _search(part, depth - 1)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or () if _is_bound(cell)]
    return list(getattr(value, "__dict__", {}).values())


def _is_bound(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading it is the question
    except ValueError:
        return False
    return True
