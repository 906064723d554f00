"""What all benchmarks share: a figure, interleaved repeats, medians."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """One measured number and, if there is one, the bar it has to meet."""

    benchmark: str
    value: float
    unit: str
    bar: str | None = None
    """as a person reads it, e.g. ">= 0.95"; None: for reference only"""
    ok: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))


def figure(
    benchmark: str, value: float, unit: str, bar: str | None = None, **details: Any
) -> Figure:
    """A figure, held against its bar: an operator and a number."""
    ok = None
    if bar is not None:
        operator, limit = bar.split()
        compare = {"<=": float.__le__, "<": float.__lt__, ">=": float.__ge__}[operator]
        ok = compare(float(value), float(limit))
    return Figure(benchmark, significant(value), unit, bar, ok, details)


def significant(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")


def interleaved(contestants: Sequence[Callable[[], T]], repeats: int) -> list[list[T]]:
    """Run the contestants in turn, `repeats` times, so that a slow moment hits all of them.

    Every second round goes backwards: nobody always runs right after the same other one.
    """
    results: list[list[T]] = [[] for _ in contestants]
    for round_ in range(repeats):
        order = range(len(contestants))
        for i in order if round_ % 2 == 0 else reversed(order):
            results[i].append(contestants[i]())
    return results


class Took(float):
    """Seconds on the wall, and the processor time this thread used in them."""

    cpu: float


def seconds_for(step: Callable[[], object], items: int) -> Took:
    """How long `items` calls of `step` take."""
    began, cpu = time.perf_counter(), time.thread_time()
    for _ in range(items):
        step()
    took = Took(time.perf_counter() - began)
    took.cpu = time.thread_time() - cpu
    return took


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Throughput of ours over theirs, from seconds measured side by side."""
    return statistics.median(t / o for o, t in zip(ours, theirs, strict=True))


def load() -> float:
    """How busy the machine was in the last minute, for the reader of a strange figure."""
    return round(os.getloadavg()[0], 2)
