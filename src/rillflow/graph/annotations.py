"""Do the annotated types of two neighbouring operators agree? Only a certain no is an error."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from rillflow.errors import TypeMismatch

UNKNOWN: Any = inspect.Parameter.empty


def wants_context(fn: Callable[..., Any]) -> bool:
    """Whether a callable asks for the context, by a second parameter called `ctx`."""
    signature = _signature(fn)
    return signature is not None and "ctx" in signature.parameters


def input_type(fn: Callable[..., Any]) -> Any:
    """The annotation of the first parameter, or UNKNOWN."""
    signature, hints = _signature(fn), _hints(fn)
    if signature is None:
        return UNKNOWN
    for name, parameter in signature.parameters.items():
        if name == "self":
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            return hints.get(name, UNKNOWN)
        return UNKNOWN
    return UNKNOWN


def output_type(fn: Callable[..., Any]) -> Any:
    """The annotation of the result, or UNKNOWN."""
    return _hints(fn).get("return", UNKNOWN)


def element_type(container: Any) -> Any:
    """T of list[T] and the like, or UNKNOWN."""
    arguments = typing.get_args(container)
    origin = typing.get_origin(container)
    if isinstance(origin, type) and issubclass(origin, list) and len(arguments) == 1:
        return arguments[0]
    return UNKNOWN


def require_agreement(given: Any, fn: Callable[..., Any], producer: str, consumer: str) -> None:
    """Raise TypeMismatch if what `producer` makes is known not to be what `consumer` takes."""
    wanted = input_type(fn)
    if _compatible(given, wanted):
        return
    raise TypeMismatch(
        f"the types of two neighbours must agree: {producer!r} gives {_name(given)}, "
        f"but {consumer!r} takes {_name(wanted)}. "
        f"Put a conversion between them, or correct the annotation that is wrong."
    )


def _signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):  # many built-ins have none
        return None


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    target = fn
    if not isinstance(fn, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
        owner, name = (fn, "__init__") if isinstance(fn, type) else (type(fn), "__call__")
        target = getattr(owner, name, fn)
    try:
        hints = dict(typing.get_type_hints(target))
    except Exception:  # a forward reference to what only a type checker sees
        return {}
    if isinstance(fn, type):
        hints["return"] = fn
    return hints


def _compatible(given: Any, wanted: Any) -> bool:
    if given is wanted or _open(given) or _open(wanted):
        return True
    if _is_union(given):
        return any(_compatible(option, wanted) for option in typing.get_args(given))
    if _is_union(wanted):
        return any(_compatible(given, option) for option in typing.get_args(wanted))
    one, other = typing.get_origin(given) or given, typing.get_origin(wanted) or wanted
    if not isinstance(one, type) or not isinstance(other, type):
        return True
    if one in (int, bool) and other in (float, complex):
        return True  # as every type checker has it
    if getattr(other, "_is_protocol", False):
        return True
    if not issubclass(one, other):
        return False
    inner, outer = typing.get_args(given), typing.get_args(wanted)
    if one is other and len(inner) == len(outer):
        return all(_compatible(a, b) for a, b in zip(inner, outer, strict=True))
    return True


def _open(annotation: Any) -> bool:
    return annotation in (UNKNOWN, Any, object, Ellipsis) or isinstance(annotation, typing.TypeVar)


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
