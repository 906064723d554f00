"""The types of values that are there already: what a source is going to give."""

from __future__ import annotations

import inspect
import types
import typing
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from itertools import islice
from typing import Any

from rillflow.graph.agreement import UNKNOWN
from rillflow.graph.annotations import output_type
from rillflow.graph.generics import arguments_as, united

_ENOUGH = 1000
"""values that are looked at; a source of more is taken to go on as it begins"""
_DIFFERENT = 16
"""types that are told apart; more of them are no help in a message"""


def type_of_values(values: Iterable[Any], depth: int = 2) -> Any:
    """The type of any of some values; UNKNOWN if there are none, or of too many kinds.

    >>> type_of_values([1, 2]), type_of_values([[1], [2, 3]])
    (<class 'int'>, list[int])
    """
    found = {_type_of(value, depth): None for value in islice(values, _ENOUGH)}
    return united(list(found)) if 0 < len(found) <= _DIFFERENT and UNKNOWN not in found else UNKNOWN


def _type_of(value: Any, depth: int) -> Any:
    kind = type(value)
    if depth == 0 or kind not in (list, tuple, set, frozenset, dict):
        return UNKNOWN if _may_be_anything(value) else kind
    if kind is tuple:
        parts = tuple(_type_of(one, depth - 1) for one in value)
        return types.GenericAlias(tuple, parts) if parts else kind
    if kind is dict:
        return types.GenericAlias(
            dict, (type_of_values(value, depth - 1), type_of_values(value.values(), depth - 1))
        )
    return types.GenericAlias(kind, (type_of_values(value, depth - 1),))


def _may_be_anything(value: Any) -> bool:
    """Whether an object stands in for others: a mock, or one that makes up its attributes."""
    return callable(value) or hasattr(type(value), "__getattr__")


def type_of_iterable(source: Any) -> Any:
    """The type of what an iterable gives, or what the iterable gives that a function returns."""
    if isinstance(source, range):
        return int
    if isinstance(source, str):
        return str
    if isinstance(source, list | tuple | set | frozenset | deque | Mapping):
        return type_of_values(source)
    if inspect.isgenerator(source):
        return UNKNOWN
    made = output_type(source) if callable(source) else _own_iterator(source)
    return _elements(made)


def _own_iterator(source: Any) -> Any:
    method: Callable[..., Any] | None = getattr(source, "__iter__", None)
    return UNKNOWN if method is None else output_type(method)


def _elements(made: Any) -> Any:
    origin = typing.get_origin(made) or made
    if not isinstance(origin, type) or origin is UNKNOWN:
        return UNKNOWN
    if isinstance(origin, type) and issubclass(origin, Generator):
        return (typing.get_args(made) or (UNKNOWN,))[0]
    if not issubclass(origin, Iterable):
        return UNKNOWN
    return (arguments_as(made, Iterable) or (UNKNOWN,))[0]
