"""How long the driver's operators take on larger items: measured, on as many sizes as time allows.

A round of more workers is a larger item. Virtual workers give recorded answers, so a round of 16
can be made on a machine that has two; the operators of the driver really work on it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rillflow.graph.node import Node
from rillflow.scheduler.run import Run
from rillflow.simulation.calibration import Calibration
from rillflow.simulation.cost_growth import fitted
from rillflow.simulation.cpu_meters import schedstat
from rillflow.simulation.recorded_flow import recorded, replaceable
from rillflow.simulation.recorded_operators import Recording
from rillflow.simulation.recording_engine import Enough
from rillflow.simulation.virtual_engine import VirtualEngine

Plan = Callable[[int], Node]
"""the flow on so many workers"""

_CALLS, _SECONDS = 10, 0.15
"""results per size, or seconds of work, whichever comes first"""
_COSTLY = 2e-4
"""seconds of a call from which replaying it saves time"""


class GrowthMeasurement(VirtualEngine):
    """A virtual engine that notes what the driver's operators really take."""

    def __init__(self, calibration: Calibration, **options: Any) -> None:
        super().__init__(calibration, **options)
        self.real: dict[str, dict[int, list[float]]] = {}
        """seconds of each operator's calls, by number of parts"""
        self.worked = 0.0
        self._delayed = 0.0

    def spend(self, operator: str, wall: float, cpu: float, parts: int = 1) -> float:
        self.worked += wall
        # waiting, as for a device, counts; but not for a processor that another program had
        before, self._delayed = self._delayed, schedstat("/proc/thread-self/schedstat")[1]
        if parts:
            seconds = max(cpu, wall - (self._delayed - before))
            self.real.setdefault(operator, {}).setdefault(parts, []).append(seconds)
        return super().spend(operator, wall, cpu, parts)


def with_growth(
    plan: Plan, calibration: Calibration, *, first: int, largest: int, seconds: float, seed: int
) -> Calibration:
    """The calibration with what is known of larger items, and of what operators do with items.

    Args:
        plan: the flow on so many workers.
        calibration: of a real run.
        first: workers of that run.
        largest: workers that will be asked for.
        seconds: how long to measure, at most; one size is measured in any case.
        seed: of the runs.
    """
    real: dict[str, dict[int, list[float]]] = {}
    recordings: dict[str, Recording] = {}
    began, count = time.perf_counter(), first
    while True:
        before = time.perf_counter()
        _measure(plan(count), calibration, recordings, real, seed, warm=count == first)
        now = time.perf_counter()
        count *= 2  # which takes about twice as long
        if count > largest or now - began + 2 * (now - before) > seconds:
            break
    growth = {
        name: fitted({parts: statistics.median(of_size) for parts, of_size in sizes.items()})
        for name, sizes in real.items()
    }
    costly = {
        name
        for name in replaceable(plan(first), recordings)
        if name in growth and max(growth[name].seen.values()) >= _COSTLY
    }
    return replace(calibration, growth=growth, recordings=recordings, costly=frozenset(costly))


def _measure(
    root: Node,
    calibration: Calibration,
    recordings: dict[str, Recording],
    real: dict[str, dict[int, list[float]]],
    seed: int,
    *,
    warm: bool,
) -> None:
    """One size."""
    engine = GrowthMeasurement(calibration, transport=calibration.transport)
    run: Run[object] = Run(recorded(root, recordings), engine, seed=seed)
    with run, suppress(Enough):
        if warm:
            next(run)  # the first result pays for imports and caches
        engine.real.clear()
        engine.worked = 0.0
        for results, _ in enumerate(run, 1):
            if results >= _CALLS or engine.worked >= _SECONDS:
                break
    for name, sizes in engine.real.items():
        for parts, seconds in sizes.items():
            real.setdefault(name, {}).setdefault(parts, []).extend(seconds)
