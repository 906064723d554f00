"""The arguments of generic types: what a `list[int]` is as a `Sequence`, what `T` stands for."""

from __future__ import annotations

import functools
import types
import typing
from collections import abc
from collections.abc import Mapping, Sequence
from typing import Any

_ONE = (
    abc.Iterable,
    abc.Iterator,
    abc.Reversible,
    abc.Container,
    abc.Collection,
    abc.Sequence,
    abc.MutableSequence,
    abc.Set,
    abc.MutableSet,
)
"""what has one argument, the type of its elements"""
_TWO = (abc.Mapping, abc.MutableMapping, dict)
_ELEMENTS: dict[type, type] = {str: str, bytes: int, bytearray: int, range: int}


def options_of(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; of any other type, itself."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def limits_of(variable: typing.TypeVar) -> tuple[Any, ...]:
    """What a type variable may stand for, if that is not everything."""
    bound = variable.__bound__
    return variable.__constraints__ or (() if bound is None else (bound,))


def united(options: Sequence[Any]) -> Any:
    """The union of types; of one, itself."""
    return functools.reduce(_or, options)


def _or(one: Any, other: Any) -> Any:
    return typing.Union[one, other]  # noqa: UP007 - types are values here


def is_variadic(arguments: Sequence[Any]) -> bool:
    """Whether these are the arguments of `tuple[T, ...]`."""
    return len(arguments) == 2 and arguments[1] is Ellipsis


def substitute(annotation: Any, bound: Mapping[Any, Any]) -> Any:
    """An annotation with what its type variables stand for; those that are not known are Any.

    >>> T = typing.TypeVar("T")
    >>> substitute(dict[str, T], {T: int})
    dict[str, int]
    """
    if isinstance(annotation, typing.TypeVar):
        return bound.get(annotation, Any)
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation  # a class itself, whose parameters nobody gave
    parameters = getattr(annotation, "__parameters__", ())
    if not parameters:
        return annotation
    try:
        return annotation[tuple(bound.get(parameter, Any) for parameter in parameters)]
    except TypeError:  # parameters of functions, tuples of types
        return Any


def arguments_as(given: Any, other: type) -> tuple[Any, ...] | None:
    """The arguments that a type has when it is seen as one of its base classes; None: unknown.

    >>> arguments_as(list[int], abc.Iterable), arguments_as(dict[str, int], abc.Iterable)
    ((<class 'int'>,), (<class 'str'>,))
    """
    one, arguments = typing.get_origin(given) or given, typing.get_args(given)
    if issubclass(one, tuple) and hasattr(one, "_fields"):
        hints = typing.get_type_hints(one)
        arguments = tuple(hints.get(name, Any) for name in one._fields)
        return arguments if other is tuple else _elements_of(tuple, arguments, other)
    if one is other:
        return arguments or None
    inherited = _through_bases(one, arguments, other)
    return inherited if inherited is not None else _elements_of(one, arguments, other)


def _through_bases(one: type, arguments: tuple[Any, ...], other: type) -> tuple[Any, ...] | None:
    """Through the bases that a class was written with, such as `Mapping[str, Array]`."""
    parameters = getattr(one, "__parameters__", ())
    known = dict(zip(parameters, arguments, strict=False))
    for base in one.__dict__.get("__orig_bases__", one.__bases__):
        origin = typing.get_origin(base) or base
        if isinstance(origin, type) and origin is not object and _derives(origin, other):
            return arguments_as(substitute(base, known), other)
    return None


def _derives(one: type, other: type) -> bool:
    try:
        return issubclass(one, other)
    except TypeError:
        return False


def _elements_of(one: type, arguments: tuple[Any, ...], other: type) -> tuple[Any, ...] | None:
    """Of the built-in classes, which do not say what their bases' arguments are."""
    if other in _TWO:
        return arguments if len(arguments) == 2 else None
    if other not in _ONE:
        return None
    if one in _ELEMENTS:
        return (_ELEMENTS[one],)
    if one is tuple:
        parts = tuple(argument for argument in arguments if argument is not Ellipsis)
        return (united(parts),) if parts else None
    if issubclass(one, abc.Mapping | abc.Generator):
        return arguments[:1] or None
    return arguments if len(arguments) == 1 else None
