"""Bad input gets one clear message, soon, and nothing is left running."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import rillflow as rf
from tests.engines.processes import children, gone_within


class Raises:
    def next(self) -> int:
        raise ZeroDivisionError("the environment divided by zero")


class Fails:
    def __init__(self) -> None:
        raise LookupError("unknown environment 'CartPole-v9'")

    def next(self) -> int:
        return 0


def numbers() -> rf.ParallelFlow[int]:
    return rf.from_range(4)


def bad_map(x: int) -> int:
    return 1 // (x - x)


BUILD: dict[str, tuple[Callable[[], Any], str]] = {
    "engine": (lambda: numbers().gather_async().run("locl"), r"unknown engine 'locl'.*'local'\?"),  # type: ignore[arg-type]
    "count": (lambda: rf.Actors.of(Raises, 0), "at least 1"),
    "num_async": (lambda: numbers().gather_async(num_async=0), "num_async must be"),
    "batch": (lambda: numbers().batch(-1), "batch: n must be"),
    "capacity": (lambda: rf.Queue(capacity=0), "at least one item"),
    "callable": (lambda: numbers().for_each(3), "takes a callable"),  # type: ignore[call-overload]
    "method": (lambda: rf.from_actors(rf.Actors.of(Raises, 1), "sample"), "no method 'sample'"),
    "weights": (
        lambda: rf.Union(numbers().gather_async(), numbers().gather_async(), weights=[1]),
        "one weight per flow",
    ),
    "gather twice": (lambda: numbers().gather_async().gather_sync(), "sequential already"),
    "par after gather": (
        lambda: numbers().gather_async().par_for_each(bad_map),
        "before gathering",
    ),
    "seed": (lambda: numbers().gather_async().run("sim", seed="one"), "a seed is a whole number"),  # type: ignore[arg-type]
    "split": (lambda: numbers().gather_async().split(1), "at least 2 children"),
    "parallel union": (lambda: rf.Union(numbers(), numbers()), "parallel"),  # type: ignore[arg-type]
    "take": (lambda: numbers().gather_async().take(-1), "0 or more"),
}


@pytest.mark.parametrize("case", BUILD)
def test_a_wrong_argument_is_refused_while_the_flow_is_written(case: str) -> None:
    """The rule, the offender and the way out, before anything starts."""
    mistake, message = BUILD[case]
    before = time.monotonic()
    with pytest.raises(rf.BuildError, match=message):
        mistake()
    assert time.monotonic() - before < 0.5


def test_mis_wired_annotations_are_found_at_build_time() -> None:
    """Both neighbours are named."""

    def words(x: int) -> str:
        return str(x)

    def half(x: float) -> float:
        return x / 2

    with pytest.raises(
        rf.TypeMismatch, match=r"'for_each\(words\)' gives str.*'for_each\(half\)' takes float"
    ):
        numbers().for_each(words).for_each(half)  # type: ignore[arg-type]


def test_iterating_a_parallel_flow_says_how_to_gather_it() -> None:
    """A parallel flow has no single order."""
    with pytest.raises(TypeError, match="gathered first"):
        iter(numbers())


def unpicklable() -> rf.Flow[Any]:
    lock = threading.Lock()
    return numbers().for_each(lambda x: (lock, x)).gather_async()


RUN: dict[str, tuple[Callable[[], rf.Flow[Any]], type[Exception], list[str]]] = {
    "an actor's method raises": (
        lambda: rf.from_actors(rf.Actors.of(Raises, 2)).gather_async(),
        ZeroDivisionError,
        ["the environment divided by zero", "in next", "from_actors(Raises.next) > gather_async"],
    ),
    "a constructor raises": (
        lambda: rf.from_actors(rf.Actors.of(Fails, 2)).gather_sync(),
        rf.ActorStartError,
        ["unknown environment 'CartPole-v9'", "in __init__", "fails-"],
    ),
    "an operator in an actor raises": (
        lambda: numbers().for_each(bad_map).gather_async(),
        ZeroDivisionError,
        ["in bad_map", "return 1 // (x - x)", "for_each(bad_map)"],
    ),
    "an operator in the driver raises": (
        lambda: numbers().gather_async().for_each(bad_map),
        ZeroDivisionError,
        ["in bad_map", "return 1 // (x - x)", "gather_async > for_each(bad_map)"],
    ),
    "a closure cannot be shipped": (unpicklable, rf.CheckError, ["lock", "for_each(lambda)"]),
}


@pytest.mark.proc
@pytest.mark.parametrize("case", RUN)
def test_a_failing_flow_is_one_clear_error_and_leaves_nothing(case: str) -> None:
    """The user's own line comes before anything else, within a second of the processes' start."""
    build, kind, phrases = RUN[case]
    before, started = children(), time.monotonic()
    with pytest.raises(kind) as caught:
        build().take(1, engine="local")
    assert time.monotonic() - started < 2.0
    message = str(caught.value)
    assert all(phrase in message for phrase in phrases), message
    if kind is not rf.CheckError:
        assert "your code: " in message.splitlines()[1]
        assert "test_bad_input.py" in message.splitlines()[1]
    assert gone_within(list(children() - before), 2.0)
