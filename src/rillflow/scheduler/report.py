"""`run.stats()`: a snapshot of every operator, and the verdict on what limits the flow."""

from __future__ import annotations

from rillflow.graph.node import Node
from rillflow.scheduler.attribution import attribution
from rillflow.scheduler.bottleneck import bottleneck
from rillflow.scheduler.scheduler import Scheduler
from rillflow.scheduler.stats import OperatorStats, ResourceStats, RunStats
from rillflow.scheduler.times import DriverTimes

_LONG = 2.0
"""seconds of waiting that a user should know of"""


def run_stats(scheduler: Scheduler, times: DriverTimes, now: float) -> RunStats:
    """Everything measured so far."""
    waits = times.waits_for(now)
    seconds, waited = now - times.begin, times.waited + waits
    operators = [
        _operator(scheduler, node, name, seconds)
        for node, name in scheduler.program.names.items()
        if node.kind != "port"
    ]
    operators += [
        _background(scheduler, index, seconds) for index in range(len(scheduler.backgrounds))
    ]
    resources = _resources(scheduler, seconds, waited)
    limit = bottleneck(resources, seconds)
    return RunStats(
        seconds=seconds,
        operators=operators,
        resources=resources,
        verdict=_waiting(scheduler, waits, now) or limit.sentence,
        driver_waiting=min(1.0, waited / seconds) if seconds > 0 else 0.0,
        counters=dict(scheduler.fleet.counters),
        times=attribution(scheduler, times, now),
        bottleneck=limit.name,
    )


def overdue(scheduler: Scheduler, now: float) -> dict[str, float]:
    """Actors that have not answered for much longer than usual, and for how many seconds."""
    if scheduler.fleet.engine.actors_in_driver:
        return {}
    found = {}
    for actor in list(scheduler.fleet.actors.values()):
        oldest = next(iter(list(actor.requests.values())), None)
        if oldest is not None and actor.status == "live" and not actor.inline:
            silent = now - max(oldest.issued, actor.last_heard)
            if silent > max(_LONG, 5 * actor.slowest):
                found[actor.name] = silent
    return found


def _waiting(scheduler: Scheduler, waits: float, now: float) -> str:
    """For whom the driver waits, if it has been waiting for long; empty: it has not."""
    if waits < _LONG:
        return ""
    names = overdue(scheduler, now)
    if not names:
        return f"Waiting for {waits:.0f} s."
    told = ", ".join(f"{name} for {silent:.0f} s" for name, silent in names.items())
    limits = [scheduler.fleet.supervision.timeout_of(scheduler.fleet.actors[n]) for n in names]
    known = [limit for limit in limits if limit is not None]
    then = f"; replaced after {min(known):.0f} s" if known else ""
    return f"Waiting for {told}{then}."


def _operator(scheduler: Scheduler, node: Node, name: str, seconds: float) -> OperatorStats:
    stats = scheduler.stats_of(name)
    step = scheduler.steps.get(node)
    places = scheduler.program.places[node] if node.parallel else 1
    return OperatorStats(
        name=name,
        where=f"{places} actors" if node.parallel else "driver",
        items=stats.items,
        rate=(stats.items - stats.items_before) / seconds if seconds > 0 else 0.0,
        busy=stats.busy,
        utilisation=_share(stats.busy, seconds * places),
        depth=0 if step is None else step.depth,
        capacity=None if step is None else step.capacity,
        in_flight=0 if step is None else step.in_flight,
        lag_mean=stats.lag_sum / stats.answers if stats.answers else 0.0,
        lag_max=stats.lag_max,
        counters=dict(stats.counters),
    )


def _background(scheduler: Scheduler, index: int, seconds: float) -> OperatorStats:
    state = scheduler.backgrounds[index]
    return OperatorStats(
        name=state.operator,
        where=state.actor.handle.group.placement,
        items=state.stats.items,
        rate=(state.stats.items - state.stats.items_before) / seconds if seconds > 0 else 0.0,
        busy=state.stats.busy,
        utilisation=_share(state.stats.busy, seconds),
        depth=len(state.inqueue.items),
        capacity=state.inqueue.queue.capacity,
        in_flight=state.handed,
    )


def _resources(scheduler: Scheduler, seconds: float, waited: float) -> list[ResourceStats]:
    """The places where work is done: the driver, and each group of actors.

    The driver works whenever it does not wait: on its operators, on scheduling, on the user's loop.
    """
    driver = max(0.0, seconds - waited)
    lines = [ResourceStats("driver", 1, _share(driver, seconds))]
    background_groups = {state.actor.handle.group.uid for state in scheduler.backgrounds}
    for group in scheduler.program.groups:
        members = scheduler.fleet.group(group.uid)
        kind = "background " if group.uid in background_groups else "actors "
        lines.append(
            ResourceStats(
                name=kind + repr(scheduler.program.group_names[group.uid]),
                count=len(members),
                utilisation=_share(sum(a.busy for a in members), seconds * max(1, len(members))),
                restarts=sum(a.counters["restarts"] for a in members),
                errors=sum(a.counters["errors"] for a in members),
            )
        )
    return lines


def _share(busy: float, available: float) -> float:
    return min(1.0, busy / available) if available > 0 else 0.0
