"""One simulated run: the flow on one number of workers, and what it showed after the warm-up."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rillflow.graph.node import Node
from rillflow.scheduler.bottleneck import CORES, bottleneck
from rillflow.scheduler.gather import Gather
from rillflow.scheduler.run import Run
from rillflow.scheduler.stats import ResourceStats
from rillflow.simulation.recording_engine import Enough
from rillflow.simulation.report import SimulationRow
from rillflow.simulation.virtual_engine import MESSAGES, Bounded

_WARM_UP = 0.25
"""share of a run that is not counted: at first all workers begin at the same moment"""


@dataclass(frozen=True)
class _Moment:
    """The counters of a simulated run at one time."""

    clock: float = 0.0
    outputs: int = 0
    operators: dict[str, float] = field(default_factory=dict)
    """virtual seconds each operator has worked, over all its shards"""
    groups: dict[str, float] = field(default_factory=dict)
    driver: float = 0.0
    work: float = 0.0
    """processor time used by all"""
    lag: int = 0
    answers: int = 0


def simulated_run(
    root: Node, engine: Bounded, workers: int, items: int | None, seed: int
) -> SimulationRow:
    """Run a flow on a simulation until it says enough, or `items` have come out."""
    run: Run[object] = Run(root, engine, seed=seed)
    with run:
        warm, times = _Moment(), [0.0]
        steps = _Steps(engine)
        run.on_metrics(steps.record)
        with suppress(Enough):
            for outputs, _ in enumerate(run, 1):
                times.append(engine.clock)
                done = outputs / items if items else engine.progress
                if warm.outputs == 0 and done >= _WARM_UP:
                    warm = _moment(run, engine, outputs)
                if done >= 1:
                    break
        end = _moment(run, engine, len(times) - 1)
        if end.outputs == warm.outputs:  # too short for a warm-up
            warm = _Moment()
        counted, seconds = _counted(times[warm.outputs :], workers)
        resources = _resources(run, engine, warm, end)
        limit = bottleneck(resources, end.clock - warm.clock)
        lags = [run.stats().operator(gather.name).lag_max for gather in _gathers(run)]
        return SimulationRow(
            workers=workers,
            throughput=counted / seconds if seconds > 0 else 0.0,
            steps=steps.rate(since=warm.clock),
            lag_mean=(end.lag - warm.lag) / max(1, end.answers - warm.answers),
            lag_max=max(lags, default=0),
            operators=_operators(run, warm, end),
            resources={line.name: line.utilisation for line in resources},
            limit=limit.name,
            bottleneck=limit.sentence,
            items=counted,
            seconds=seconds,
        )


class _Steps:
    """Steps of environments, as workers tell them with their answers."""

    def __init__(self, engine: Bounded) -> None:
        self.engine = engine
        self.total = 0
        self.moments: list[tuple[float, int]] = []
        """when some came, and how many had come then; those of a round come together"""

    def record(self, actor: str, seq: int, metrics: Mapping[str, Any]) -> None:
        """One answer."""
        steps = metrics.get("steps", 0)
        if steps:
            self.total += steps
            now = self.engine.clock
            if self.moments and self.moments[-1][0] == now:
                self.moments.pop()
            self.moments.append((now, self.total))

    def rate(self, since: float) -> float | None:
        """Per second, from one moment to a later one; None: nobody has told any."""
        later = [moment for moment in self.moments if moment[0] >= since]
        if len(later) < 3:  # too short for a warm-up
            later = self.moments
        if len(later) < 2:
            return None
        (first, before), (last, total) = later[0], later[-1]
        return (total - before) / (last - first)


def _counted(times: list[float], workers: int) -> tuple[int, float]:
    """Items and seconds, from one item to a later one.

    Workers that take equally long answer in bursts, one each. Whole bursts are counted: then it
    does not matter where in a burst the counting begins.
    """
    items = len(times) - 1
    if items >= 2 * workers:
        items -= items % workers
    return items, times[items] - times[0]


def _gathers(run: Run[Any]) -> list[Gather]:
    return [step for step in run._scheduler.steps.values() if isinstance(step, Gather)]


def _moment(run: Run[Any], engine: Bounded, outputs: int) -> _Moment:
    # `run.stats()` says what happened since the beginning; here it is what happened between two
    # moments, so the counters themselves are read.
    scheduler = run._scheduler
    busy = {
        name: scheduler.stats_of(name).busy if node.parallel else engine.spent.get(name, 0.0)
        for node, name in run.program.names.items()
        if node.kind != "port"
    }
    busy |= {state.operator: state.stats.busy for state in scheduler.backgrounds}
    if MESSAGES in engine.spent:
        busy[MESSAGES] = engine.spent[MESSAGES]
    groups: dict[str, float] = {}
    for actor in scheduler.fleet.actors.values():
        uid = actor.handle.group.uid
        groups[uid] = groups.get(uid, 0.0) + actor.busy
    gathers = [gather.stats for gather in _gathers(run)]
    return _Moment(
        engine.clock, outputs, busy, groups, sum(engine.spent.values()), engine.cores.work,
        sum(stats.lag_sum for stats in gathers), sum(stats.answers for stats in gathers),
    )  # fmt: skip


def _operators(run: Run[Any], warm: _Moment, end: _Moment) -> dict[str, float]:
    seconds = end.clock - warm.clock
    nodes = {name: node for node, name in run.program.names.items()}
    shares = {}
    for name, busy in end.operators.items():
        node = nodes.get(name)
        shards = run.program.places.get(node, 1) if node is not None else 1
        shares[name] = _share(busy - warm.operators.get(name, 0.0), seconds * shards)
    return shares


def _resources(run: Run[Any], engine: Bounded, warm: _Moment, end: _Moment) -> list[ResourceStats]:
    """The places where work is done, with their busy share after the warm-up."""
    seconds = end.clock - warm.clock
    _, *groups = run.stats().resources
    lines = [ResourceStats("driver", 1, _share(end.driver - warm.driver, seconds))]
    for group, line in zip(run.program.groups, groups, strict=True):
        busy = end.groups.get(group.uid, 0.0) - warm.groups.get(group.uid, 0.0)
        lines.append(ResourceStats(line.name, line.count, _share(busy, seconds * line.count)))
    if engine.cores.count is not None:
        share = _share(end.work - warm.work, seconds * engine.cores.count)
        lines.append(ResourceStats(CORES, engine.cores.count, share))
    return lines


def _share(busy: float, available: float) -> float:
    return min(1.0, busy / available) if available > 0 else 0.0
