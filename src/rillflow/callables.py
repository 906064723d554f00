"""Callables as values: what they are called, and who has their state."""

from __future__ import annotations

import functools
import types
from typing import Any


def owner_of(fn: Any) -> Any:
    """Who has the state of a callable: itself, or the object whose method it is."""
    while isinstance(fn, functools.partial | types.MethodType):
        fn = fn.func if isinstance(fn, functools.partial) else fn.__self__
    return fn


def label_of(fn: object) -> str:
    """How a callable is called in names and messages."""
    if isinstance(fn, type):
        return fn.__name__
    name = getattr(fn, "label", None) or getattr(fn, "__name__", None)
    if isinstance(name, str):
        return "lambda" if name == "<lambda>" else name
    inner = getattr(fn, "func", None)  # functools.partial
    return label_of(inner) if inner is not None else type(fn).__name__
