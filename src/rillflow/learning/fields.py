"""The types of settings, checked as they are written in a configuration's class."""

from __future__ import annotations

import dataclasses
import numbers
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from rillflow.learning.schedules import Schedule

_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "True or False",
    dict: "a dict",
    type(None): "None",
}


def type_problems(settings: Any) -> list[str]:
    """Every field of a dataclass whose value is not of its type; other types are let through.

    >>> @dataclasses.dataclass
    ... class Settings:
    ...     hidden: tuple[int, ...] = (64, 64)
    ...     lr: float = 1e-3
    >>> type_problems(Settings(hidden=64, lr="fast"))
    ['hidden must be a tuple of whole numbers, got 64', "lr must be a number, got 'fast'"]
    """
    try:
        hints = typing.get_type_hints(type(settings))
    except NameError:  # a class of a user's whose annotations name what is not there at run time
        return []
    return [
        f"{field.name} must be {_words(hints[field.name])}, got {value!r}"
        for field in dataclasses.fields(settings)
        if not _fits(hints[field.name], value := getattr(settings, field.name))
    ]


def _fits(hint: Any, value: object) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(one, value) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple:
        inside = arguments[0] if arguments else Any
        return isinstance(value, tuple | list) and all(_fits(inside, part) for part in value)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint in (int, float):
        if hint is float and isinstance(value, Schedule):
            return True
        kind = numbers.Integral if hint is int else numbers.Real
        return isinstance(value, kind) and not isinstance(value, bool)
    if origin is dict or hint is dict:
        return isinstance(value, Mapping)
    if origin is Callable:
        return callable(value)
    if hint in (str, type(None)):
        return isinstance(value, hint)
    return True


def _words(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_words, arguments))
    if origin is typing.Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin is tuple:
        inside = _words(arguments[0]).split(" ", 1)[-1] + "s" if arguments else "values"
        return f"a tuple of {inside}"
    if origin is Callable:
        return "a function"
    kind: Collection[Any] = [known for known in _WORDS if known in (hint, origin)]
    return _WORDS[next(iter(kind))] if kind else str(hint)
