"""What a callable takes and gives is read from annotations, each by itself; the rest is unknown."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar, overload

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.graph.annotations import UNKNOWN, guarded_type, input_type, output_type
from rillflow.graph.values import type_of_iterable, type_of_values

if TYPE_CHECKING:
    from decimal import Decimal as Exact

    from nowhere_at_all import Missing  # type: ignore[import-not-found]

T = TypeVar("T")


def plain(x: int, ctx: Any = None) -> str: ...  # type: ignore[empty-body]


def for_checkers(x: Exact) -> list[Exact]: ...  # type: ignore[empty-body]


def half_known(x: Missing) -> str: ...  # type: ignore[empty-body]


def forgotten(x):  # type: ignore[no-untyped-def]
    ...


def generic(x: Sequence[T]) -> T: ...  # type: ignore[empty-body]


def several(*xs: int) -> str: ...  # type: ignore[empty-body]


async def later(x: int) -> str: ...  # type: ignore[empty-body]


@overload
def either(x: int) -> int: ...
@overload
def either(x: str) -> str: ...
def either(x: int | str) -> int | str:
    return x


def is_int(x: object) -> TypeGuard[int]:
    return isinstance(x, int)


@functools.wraps(plain)
def disguised(pair: Any) -> Any: ...


class Scale:
    def __init__(self, factor: float) -> None: ...

    def __call__(self, x: int) -> str: ...  # type: ignore[empty-body]

    def method(self, x: int) -> str: ...  # type: ignore[empty-body]

    @classmethod
    def of_class(cls, x: int) -> str: ...  # type: ignore[empty-body]

    @staticmethod
    def static(x: int) -> str: ...  # type: ignore[empty-body]


class Generally(rf.Operator[T, list[T]], Generic[T]):
    def __call__(self, x: T) -> list[T]: ...  # type: ignore[empty-body]


class Specially(Generally[int]): ...


class Said(rf.Operator[int, str]):
    def __call__(self, x):  # type: ignore[no-untyped-def]
        ...


KNOWN: list[tuple[Callable[..., Any], Any, Any]] = [
    (plain, int, str),
    (functools.partial(plain, ctx=1), int, str),
    (functools.lru_cache(plain), int, str),
    (Scale(2), int, str),
    (Scale(2).method, int, str),
    (Scale.method, Scale, str),
    (Scale.of_class, int, str),
    (Scale.static, int, str),
    (Scale, float, Scale),
    (Specially(), int, list[int]),
    (Generally[int](), int, list[int]),
    (Said(), int, str),
    (several, int, str),
    (str, UNKNOWN, str),
    (str.upper, str, UNKNOWN),
    (half_known, UNKNOWN, str),
    (later, int, UNKNOWN),
    (either, int | str, UNKNOWN),
    (disguised, UNKNOWN, UNKNOWN),
    (forgotten, UNKNOWN, UNKNOWN),
    (lambda x: x, UNKNOWN, UNKNOWN),
    (operator.itemgetter(0), UNKNOWN, UNKNOWN),
    (max, UNKNOWN, UNKNOWN),
    (np.sqrt, UNKNOWN, UNKNOWN),
    (torch.relu, UNKNOWN, UNKNOWN),
    (torch.nn.Linear(1, 1), UNKNOWN, UNKNOWN),
    ({}.get, UNKNOWN, UNKNOWN),
]


@pytest.mark.parametrize(("fn", "takes", "gives"), KNOWN)
def test_what_a_callable_takes_and_gives(fn: Any, takes: Any, gives: Any) -> None:
    assert (input_type(fn), output_type(fn)) == (takes, gives)


def test_a_name_for_type_checkers_is_found_where_its_module_is_loaded() -> None:
    from decimal import Decimal

    assert input_type(for_checkers) is Decimal
    assert output_type(for_checkers) == list[Decimal]


def test_a_type_variable_is_found_from_the_item() -> None:
    assert output_type(generic, list[int]) is int
    assert output_type(generic) is UNKNOWN


def test_a_guard_says_what_is_left() -> None:
    assert guarded_type(is_int) is int
    assert output_type(is_int) is bool
    assert guarded_type(plain) is UNKNOWN


class Lazy:
    def __iter__(self) -> Iterator[str]:
        return iter("ab")


def counted() -> Iterator[int]:
    yield 1


def test_types_of_values() -> None:
    assert type_of_values([1, 2]) is int
    assert type_of_values([1, "a", None]) == int | str | None
    assert type_of_values([(1, "a")]) == tuple[int, str]
    assert type_of_values([{"a": [1]}]) == dict[str, list[int]]
    assert type_of_values([]) is UNKNOWN
    assert type_of_values([len]) is UNKNOWN
    assert type_of_values(type(f"Kind{i}", (), {})() for i in range(99)) is UNKNOWN


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (range(3), int),
        ("ab", str),
        ([1.5], float),
        ({"a": 1}, str),
        (Lazy(), str),
        (counted, int),
        (counted(), UNKNOWN),
        (lambda: [1], UNKNOWN),
        (np.arange(3), UNKNOWN),
    ],
)
def test_types_of_iterables(source: Any, kind: Any) -> None:
    assert type_of_iterable(source) is kind
