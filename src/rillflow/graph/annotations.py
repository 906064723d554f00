"""What a callable takes and gives, by its annotations. What cannot be found out is UNKNOWN."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Sized
from typing import Any

from rillflow.graph.agreement import UNKNOWN as UNKNOWN
from rillflow.graph.agreement import applied
from rillflow.graph.context import Operator
from rillflow.graph.generics import arguments_as, substitute
from rillflow.graph.resolved_annotations import hints_of

Known = tuple[Any, Any]
"""the types of the first parameter and of the result"""
_NOTHING: Known = (UNKNOWN, UNKNOWN)

_BUILTIN: dict[Any, Known] = {
    len: (Sized, int),
    ord: (str | bytes | bytearray, int),
    chr: (int, str),
    bin: (int, str),
    hex: (int, str),
    repr: (UNKNOWN, str),
    ascii: (UNKNOWN, str),
    hash: (UNKNOWN, int),
    id: (UNKNOWN, int),
    callable: (UNKNOWN, bool),
    sorted: (UNKNOWN, list),
    print: (UNKNOWN, None),
}
"""functions of Python that are used as operators and have no annotations"""

_SLOTS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_CACHED = type(functools.lru_cache(maxsize=1)(len))


def wants_context(fn: Callable[..., Any]) -> bool:
    """Whether a callable asks for the context, by a second parameter called `ctx`."""
    signature = signature_of(fn)
    return signature is not None and "ctx" in signature.parameters


def input_type(fn: Callable[..., Any]) -> Any:
    """The annotation of the first parameter, or UNKNOWN."""
    return _known(fn)[0]


def output_type(fn: Callable[..., Any], given: Any = UNKNOWN) -> Any:
    """The annotation of the result, or UNKNOWN; type variables are found from the item's type.

    >>> def pair(x: T) -> tuple[T, T]: ...
    >>> T = typing.TypeVar("T")
    >>> output_type(pair, int)
    tuple[int, int]
    """
    takes, gives = _known(fn)
    if typing.get_origin(gives) in _GUARDS:
        return bool
    return applied(given, takes, gives)


def method_type(cls: Any, name: str) -> Any:
    """The annotation of the result of a method of a class, or UNKNOWN."""
    function = inspect.getattr_static(cls, name, None)
    if not isinstance(cls, type) or not isinstance(function, types.FunctionType):
        return UNKNOWN
    if _is_disguised(function) or inspect.iscoroutinefunction(function):
        return UNKNOWN
    gives = hints_of(function).get("return", UNKNOWN)
    return substitute(_partly(gives, _parameters(cls, None, function)), {})


def guarded_type(fn: Callable[..., Any]) -> Any:
    """T of a filter's function that returns `TypeGuard[T]` or `TypeIs[T]`, or UNKNOWN."""
    gives = _known(fn)[1]
    return typing.get_args(gives)[0] if typing.get_origin(gives) in _GUARDS else UNKNOWN


_GUARDS = tuple(getattr(typing, name) for name in ("TypeGuard", "TypeIs") if hasattr(typing, name))


def signature_of(fn: Callable[..., Any], *, follow: bool = True) -> inspect.Signature | None:
    """The parameters of a callable, or None; many built-ins have none."""
    try:
        return inspect.signature(fn, follow_wrapped=follow)
    except (TypeError, ValueError):
        return None


def _known(fn: Any) -> Known:
    if isinstance(fn, _SLOTS):  # `str.upper`
        return fn.__objclass__, UNKNOWN
    if isinstance(fn, types.BuiltinFunctionType):
        return _BUILTIN.get(fn, _NOTHING)
    if isinstance(fn, type):
        return _of_class(fn)
    function, owner = _function_of(fn)
    if not isinstance(function, types.FunctionType) or _is_disguised(function):
        return _NOTHING
    hints = hints_of(function)
    takes = _first(fn, function, hints)
    gives = hints.get("return", UNKNOWN)
    if typing.get_overloads(function) or inspect.iscoroutinefunction(function):
        gives = UNKNOWN
    if owner is None:
        return takes, gives
    stands_for = _parameters(owner, fn, function)
    takes, gives = (_partly(annotation, stands_for) for annotation in (takes, gives))
    return _of_operator(owner, fn, takes, gives)


def _function_of(fn: Any) -> tuple[Any, type | None]:
    """The function behind a callable, and the class through whose instance it is called."""
    while isinstance(fn, functools.partial | _CACHED):
        fn = fn.func if isinstance(fn, functools.partial) else fn.__wrapped__
    if isinstance(fn, types.MethodType):
        owner = fn.__self__ if isinstance(fn.__self__, type) else type(fn.__self__)
        return fn.__func__, owner
    if isinstance(fn, types.FunctionType):
        return fn, None
    return getattr(type(fn), "__call__", None), type(fn)  # noqa: B004 - the function itself


def _is_disguised(function: types.FunctionType) -> bool:
    """Whether a decorator gave its function the annotations of another one."""
    return hasattr(function, "__wrapped__")


def _first(fn: Any, function: types.FunctionType, hints: dict[str, Any]) -> Any:
    signature = signature_of(fn)
    for name, parameter in (signature.parameters if signature else {}).items():
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            break
        if name == "self" and name not in hints:
            return _class_around(function)  # an item is given to a method of its own class
        return hints.get(name, UNKNOWN)
    return UNKNOWN


def _class_around(function: types.FunctionType) -> Any:
    """The class in whose body a function was written, or UNKNOWN."""
    found: Any = inspect.getmodule(function)
    for name in function.__qualname__.split(".")[:-1]:
        found = getattr(found, name, None)
    written = isinstance(found, type) and vars(found).get(function.__name__) is function
    return found if written else UNKNOWN


def _of_class(cls: type) -> Known:
    """A class as an operator: its instances are what it gives."""
    if type(cls).__call__ is not type.__call__:
        return UNKNOWN, UNKNOWN
    for name in ("__init__", "__new__"):
        function = getattr(cls, name, None)
        if isinstance(function, types.FunctionType):
            parameters = list(inspect.signature(function).parameters)[1:2]
            takes = [hints_of(function).get(p, UNKNOWN) for p in parameters]
            return (takes or [UNKNOWN])[0], cls
    return UNKNOWN, cls


def _parameters(owner: type, fn: Any, function: types.FunctionType) -> dict[Any, Any]:
    """What the type variables of the class that defines a function stand for in a derived one."""
    for base in owner.__mro__:
        if any(value is function for value in vars(base).values()):
            instance = getattr(fn, "__self__", fn)
            arguments = arguments_as(getattr(instance, "__orig_class__", owner), base)
            return dict(zip(getattr(base, "__parameters__", ()), arguments or (), strict=False))
    return {}


def _partly(annotation: Any, stands_for: dict[Any, Any]) -> Any:
    if not stands_for:
        return annotation
    own = getattr(annotation, "__parameters__", (annotation,))
    return substitute(annotation, {p: p for p in own} | stands_for)


def _of_operator(owner: type, fn: Any, takes: Any, gives: Any) -> Known:
    """An `Operator[T, U]` has said what it takes and gives, if its `__call__` does not."""
    if fn is not None and issubclass(owner, Operator) and isinstance(fn, owner):
        said = arguments_as(owner, Operator) or _NOTHING
        takes = said[0] if takes is UNKNOWN else takes
        gives = said[1] if gives is UNKNOWN else gives
    return takes, gives
