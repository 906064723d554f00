"""Two types agree as type checkers have it; what is not certain is no disagreement."""

from __future__ import annotations

import collections
import datetime
import enum
import os
import pathlib
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
    Sized,
)
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import Annotated, Any, Generic, Literal, NewType, Protocol, TypeVar, runtime_checkable

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike, NDArray

from rillflow.experience.batch import SampleBatch
from rillflow.graph.agreement import Filtered, agrees, applied

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Colour(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Base: ...


class Derived(Base): ...


class Box(Generic[T]): ...


class Pairs(Box[tuple[K, V]], Generic[K, V]): ...


class HasSize(Protocol):
    size: int


@runtime_checkable
class HasSizeAtRuntime(Protocol):
    size: int


@runtime_checkable
class Closes(Protocol):
    def close(self) -> None: ...


class MakesUpAttributes:
    def __getattr__(self, name: str) -> Any: ...


class SaysYes(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return True


class Shaped(metaclass=SaysYes):
    """As libraries for the shapes of arrays have it: membership is not by inheritance."""


Metres = NewType("Metres", float)
Kilometres = NewType("Kilometres", Metres)

AGREE: list[tuple[Any, Any]] = [
    (int, float),
    (bool, int),
    (Number, float),
    (float, complex),
    (Fraction, float),
    (np.float64, float),
    (np.int64, int),
    (np.int64, float),
    (np.bool_, bool),
    (Any, int),
    (int, Any),
    (int, object),
    (object, int),
    (int, int | None),
    (int | str, int | str | None),
    (int | Any, str),
    (Derived, Base),
    (list[int], list[float]),
    (list[int], Sequence[int]),
    (list[int], list),
    (list, list[int]),
    (list[list[int]], Sequence[Sequence[int]]),
    (tuple[int, ...], Sequence[int]),
    (tuple[int, str], tuple[int, ...] | tuple[int, str]),
    (tuple[int, int], tuple[int, ...]),
    (set[int], AbstractSet[int]),
    (frozenset[int], Collection[int]),
    (str, Iterable[str]),
    (range, Sequence[int]),
    (dict[str, int], Mapping[str, int]),
    (dict[str, int], Iterable[str]),
    (collections.defaultdict[str, int], dict[str, int]),
    (collections.OrderedDict[str, int], MutableMapping[str, Any]),
    (collections.Counter[str], Mapping[str, int]),
    (SampleBatch, Mapping[str, np.ndarray]),
    (datetime.datetime, datetime.date),
    (pathlib.Path, os.PathLike[str]),
    (type[bool], type[int]),
    (Callable[[float], int], Callable[[int], float]),
    (Callable[..., int], Callable[[int], int]),
    (Pairs[int, str], Box[tuple[int, str]]),
    (Annotated[int, "seconds"], int),
    (int, Annotated[int, "seconds"]),
    (Literal["a"], str),
    (str, Literal["a"]),
    (Literal["a"], Literal["a", "b"]),
    (Kilometres, Metres),
    (Kilometres, float),
    (NDArray[np.float32], np.ndarray),
    (NDArray[np.float32], NDArray[np.floating[Any]]),
    (list[int], ArrayLike),
    (torch.nn.Parameter, torch.Tensor),
    (Base, HasSize),
    (Base, HasSizeAtRuntime),
    (MakesUpAttributes, Closes),
    (Closes, Base),
    (Base, Shaped),
    (Shaped, Base),
    (int, Hashable),
    ("Nowhere", int),
    (Filtered(int | None), int),
    (Filtered(Base), Derived),
    (Filtered(list[int | None]), list[int]),
]

DISAGREE: list[tuple[Any, Any]] = [
    (float, int),
    (int, str),
    (int, bool),
    (Colour, int),
    (np.float64, int),
    (np.ndarray, float),
    (None, int),
    (int | None, int),
    (int | str, int),
    (Base, Derived),
    (list[int], int),
    (int, list[int]),
    (list[str], list[int]),
    (list[str], Sequence[int]),
    (list[list[str]], Sequence[Sequence[int]]),
    (set[int], Sequence[int]),
    (tuple[int], tuple[int, int]),
    (tuple[str, ...], tuple[int, ...]),
    (tuple[str, int], Iterable[int]),
    (str, Iterable[int]),
    (dict[str, int], Mapping[str, str]),
    (dict[str, int], Iterable[int]),
    (SampleBatch, Mapping[str, int]),
    (SampleBatch, dict[str, Any]),
    (datetime.date, datetime.datetime),
    (type[str], type[int]),
    (int, Callable[[int], int]),
    (Callable[[int], str], Callable[[int], int]),
    (Callable[[str], int], Callable[[int], int]),
    (Pairs[int, str], Box[tuple[int, int]]),
    (int, Literal["a"]),
    (Literal["a", "c"], Literal["a", "b"]),
    (float, Metres),
    (Metres, Kilometres),
    (NDArray[np.float32], NDArray[np.int64]),
    (np.ndarray, torch.Tensor),
    (Base, Closes),
    (list[int], Hashable),
    (int, Sized),
    (Filtered(int | None), str),
    (Filtered(Base), str),
]


@pytest.mark.parametrize(("given", "wanted"), AGREE, ids=str)
def test_types_that_agree(given: Any, wanted: Any) -> None:
    assert agrees(given, wanted)


@pytest.mark.parametrize(("given", "wanted"), DISAGREE, ids=str)
def test_types_that_certainly_disagree(given: Any, wanted: Any) -> None:
    assert not agrees(given, wanted)


APPLIED: list[tuple[Any, Any, Any, Any]] = [
    (int, T, T, int),
    (int, T, list[T], list[int]),
    (list[int], list[T], T, int),
    (list[int], Sequence[T], dict[str, T], dict[str, int]),
    (tuple[int, str], tuple[K, V], tuple[V, K], tuple[str, int]),
    (Pairs[int, str], Box[T], T, tuple[int, str]),
    (int, int, T, Any),
    (int | None, T | None, T, int),
    (SampleBatch, Mapping[str, T], T, np.ndarray[Any, Any]),
]


@pytest.mark.parametrize(("given", "wanted", "result", "expected"), APPLIED, ids=str)
def test_type_variables_stand_for_what_comes_in(
    given: Any, wanted: Any, result: Any, expected: Any
) -> None:
    found = applied(given, wanted, result)
    assert found == expected or (agrees(found, expected) and agrees(expected, found))


def test_a_type_within_itself_ends() -> None:
    """A recursive type is looked at to some depth, and unknown beyond."""
    nested: Any = int
    for _ in range(40):
        nested = list[nested]
    assert agrees(nested, nested | None)
