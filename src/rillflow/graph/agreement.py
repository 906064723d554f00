"""May an item of one type go where another is wanted? As type checkers have it, if they are sure.

What is unknown (`Any`, a parameter without annotation, a protocol that cannot be asked) agrees with
everything. Containers are read as if they were covariant: a list of `int` goes where a list of
`float` is wanted, because operators pass items on and do not put floats into other people's lists.
"""

from __future__ import annotations

import abc
import numbers
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rillflow.graph.generics import (
    arguments_as,
    is_variadic,
    limits_of,
    options_of,
    substitute,
    united,
)

UNKNOWN: Any = Any
"""the type of what says nothing of its type"""
_DEPTH = 12
"""types that are nested more deeply, or within themselves, are unknown"""


@dataclass(frozen=True)
class Filtered:
    """A type of which a filter may have left a part: `int | None` without None, a base class."""

    whole: Any


def agrees(given: Any, wanted: Any) -> bool:
    """Whether nothing certain speaks against items of `given` where `wanted` is asked for.

    >>> agrees(int, float), agrees(list[int], int), agrees(int | None, int)
    (True, False, False)
    """
    return Matching(isinstance(given, Filtered)).fits(given, wanted)


def applied(given: Any, wanted: Any, result: Any) -> Any:
    """The type of a function's result, with its type variables found from the item's type.

    >>> T = TypeVar("T")
    >>> applied(int, T, list[T])
    list[int]
    """
    matching = Matching(isinstance(given, Filtered))
    matching.fits(given, wanted)
    return substitute(result, matching.bound)


@dataclass
class Matching:
    """One comparison: what type variables stand for so far, and whether a filter lies behind."""

    narrowed: bool = False
    bound: dict[Any, Any] = field(default_factory=dict)
    depth: int = 0

    def fits(self, given: Any, wanted: Any) -> bool:
        """Whether `given` may go where `wanted` is asked for."""
        given, wanted = _plain(given), _plain(wanted)
        if isinstance(wanted, TypeVar):
            return self._stands_for(given, wanted)
        if given is wanted or _open(given) or _open(wanted) or self.depth > _DEPTH:
            return True
        self.depth += 1
        try:
            return self._decide(given, wanted)
        finally:
            self.depth -= 1

    def _decide(self, given: Any, wanted: Any) -> bool:
        options = options_of(given)
        if len(options) > 1:
            if any(_open(_plain(option)) for option in options):
                return True
            every = any if self.narrowed else all
            return every([self.fits(option, wanted) for option in options])
        options = options_of(wanted)
        if len(options) > 1:
            # a type variable fits everything: it is asked last
            ordered = sorted(options, key=lambda option: isinstance(option, TypeVar))
            return any(self._tries(given, option) for option in ordered)
        for special in (_new_types, _literals, _typed_dicts):
            verdict = special(self, given, wanted)
            if verdict is not None:
                return verdict
        return self._classes(given, wanted)

    def _tries(self, given: Any, wanted: Any) -> bool:
        before = dict(self.bound)
        if self.fits(given, wanted):
            return True
        self.bound = before
        return False

    def _stands_for(self, given: Any, variable: TypeVar) -> bool:
        limits = limits_of(variable)
        if limits and not any(self.fits(given, limit) for limit in limits):
            return False
        known = self.bound.get(variable, given)
        self.bound[variable] = given if known is given else united([known, given])
        return True

    def _classes(self, given: Any, wanted: Any) -> bool:
        one, other = typing.get_origin(given) or given, typing.get_origin(wanted) or wanted
        if not isinstance(one, type) or not isinstance(other, type):
            return True
        if _promoted(one, other):
            return True
        related = _is_subclass(one, other)
        if not related and self.narrowed and _is_subclass(other, one):
            return True
        if not related:
            return _cannot_tell(one, other)
        return self._arguments(given, other, typing.get_args(wanted))

    def _arguments(self, given: Any, other: type, wanted: Sequence[Any]) -> bool:
        found = arguments_as(given, other)
        if not found or not wanted:
            return True
        if other is tuple:
            return self._tuples(found, wanted)
        if isinstance(found[0], list):  # the parameters of a callable
            return self._callables(found, wanted)
        if len(found) != len(wanted):
            return True
        return self._each(found, wanted)

    def _tuples(self, found: Sequence[Any], wanted: Sequence[Any]) -> bool:
        if is_variadic(wanted):
            return all(self.fits(one, wanted[0]) for one in found if one is not Ellipsis)
        if is_variadic(found):
            return self._each([found[0]] * len(wanted), wanted)
        if len(found) != len(wanted):
            return False
        return self._each(found, wanted)

    def _each(self, found: Sequence[Any], wanted: Sequence[Any]) -> bool:
        # every pair is looked at, because each may say what a type variable stands for
        verdicts = [self.fits(a, b) for a, b in zip(found, wanted, strict=True)]
        return all(verdicts)

    def _callables(self, found: Sequence[Any], wanted: Sequence[Any]) -> bool:
        if not isinstance(wanted[0], list) or len(found[0]) != len(wanted[0]):
            return True
        return self._each([*wanted[0], found[1]], [*found[0], wanted[1]])


def _new_types(matching: Matching, given: Any, wanted: Any) -> bool | None:
    """A NewType goes where what it was made from is wanted, and not the other way round."""
    while given is not wanted and isinstance(given, typing.NewType):
        given = given.__supertype__
        if not isinstance(wanted, typing.NewType):
            return matching.fits(given, wanted)
    return given is wanted if isinstance(wanted, typing.NewType) else None


def _literals(matching: Matching, given: Any, wanted: Any) -> bool | None:
    some, few = typing.get_origin(given), typing.get_origin(wanted)
    if few is typing.Literal:
        values = typing.get_args(wanted)
        if some is typing.Literal:
            every = any if matching.narrowed else all
            return every([value in values for value in typing.get_args(given)])
        return any(matching.fits(given, type(value)) for value in values)  # the value may be one
    if some is typing.Literal:
        return all(matching.fits(type(value), wanted) for value in typing.get_args(given))
    return None


def _typed_dicts(matching: Matching, given: Any, wanted: Any) -> bool | None:
    """Compared by their keys; an ordinary dict may have those keys or not."""
    if typing.is_typeddict(wanted):
        if not typing.is_typeddict(given):
            return matching.fits(given, dict)
        have, need = typing.get_type_hints(given), typing.get_type_hints(wanted)
        return all(
            matching.fits(have[key], kind) if key in have else key not in wanted.__required_keys__
            for key, kind in need.items()
        )
    return matching.fits(dict[str, Any], wanted) if typing.is_typeddict(given) else None


def _plain(annotation: Any) -> Any:
    """An annotation without what does not change the type: names of aliases, `Annotated`, None."""
    while True:
        if isinstance(annotation, Filtered):
            annotation = annotation.whole
        elif annotation is None:
            return types.NoneType
        elif hasattr(annotation, "__metadata__"):
            annotation = annotation.__origin__
        elif type(annotation).__name__ == "TypeAliasType":  # since Python 3.12
            annotation = annotation.__value__
        else:
            return annotation


def _open(annotation: Any) -> bool:
    return annotation is Any or annotation is object or isinstance(annotation, TypeVar | str)


def _promoted(one: type, other: type) -> bool:
    """Numbers that go where Python's own are wanted: as type checkers have it, and NumPy's."""
    ladder: dict[type, type] = {
        int: numbers.Integral,
        float: numbers.Real,
        complex: numbers.Complex,
    }
    if other in ladder:
        return issubclass(one, ladder[other])
    if other is bool:
        return one.__module__ == "numpy" and one.__name__ in ("bool", "bool_")
    return other is bytes and one in (bytearray, memoryview)


def _is_subclass(one: type, other: type) -> bool:
    try:
        return issubclass(one, other)
    except Exception:  # a protocol that cannot be asked, or a metaclass of somebody else
        return True


def _cannot_tell(one: type, other: type) -> bool:
    """Whether a class that is no subclass of another may be accepted for it all the same."""
    if getattr(other, "_is_protocol", False):
        runtime = getattr(other, "_is_runtime_protocol", False)
        return not runtime or hasattr(one, "__getattr__")
    return getattr(one, "_is_protocol", False) or not (_nominal(one) and _nominal(other))


def _nominal(cls: type) -> bool:
    """Whether membership of a class is by inheritance, and not what a metaclass says it is."""
    ordinary: tuple[type, ...] = (type, abc.ABCMeta)
    hooks: tuple[Callable[[type], Any], ...] = (
        lambda meta: meta.__instancecheck__,
        lambda meta: meta.__subclasscheck__,
    )
    return all(any(hook(type(cls)) == hook(o) for o in ordinary) for hook in hooks)
