"""Where time went, line by line: the driver's wall time, and that of each group of actors."""

from __future__ import annotations

from collections.abc import Iterator

from rillflow.graph.handles import Actors
from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.scheduler.scheduler import Scheduler
from rillflow.scheduler.times import DriverTimes, TimeShare

Homes = dict[Node, frozenset[str]]
"""the groups, by uid, in whose actors each parallel operator runs"""

LOOP = "your loop"
MESSAGES = "sending and receiving"
REST = "scheduling"


def attribution(scheduler: Scheduler, times: DriverTimes, now: float) -> list[TimeShare]:
    """The driver first; each place in the order of the program."""
    seconds = now - times.begin
    if seconds <= 0:
        return []
    homes = _homes(scheduler.program)
    driver = list(_driver(scheduler, homes, times, now, seconds))
    rest = max(0.0, seconds - sum(line.seconds for line in driver if line.part_of is None))
    driver.append(TimeShare(REST, "driver", "rest", 0, rest, rest / seconds))
    lines = driver
    for group in scheduler.program.groups:
        if group.placement != "driver":
            lines += _group(scheduler, homes, group, seconds)
    return lines


def _driver(
    scheduler: Scheduler, homes: Homes, times: DriverTimes, now: float, seconds: float
) -> Iterator[TimeShare]:
    for node, name in scheduler.program.names.items():
        stats = scheduler.stats_of(name)
        if not node.parallel and stats.busy > 0:
            yield TimeShare(
                name, "driver", "operator", stats.calls, stats.busy, stats.busy / seconds
            )
    yield from _inline(scheduler, homes, seconds)
    for path, (waited, count) in times.waiting.items():
        source = path.partition(" > ")[0]
        name = f"waiting for {source}" if source else "waiting"
        yield TimeShare(name, "driver", "waiting", int(count), waited, waited / seconds)
    if times.messages > 0:
        share = times.messages / seconds
        yield TimeShare(MESSAGES, "driver", "messages", 0, times.messages, share)
    in_loop = times.in_loop(now)
    if in_loop > 0:
        yield TimeShare(LOOP, "driver", "loop", times.rounds, in_loop, in_loop / seconds)


def _inline(scheduler: Scheduler, homes: Homes, seconds: float) -> Iterator[TimeShare]:
    """Actors that live in the driver: what they make, and what they do with messages."""
    busy, before = scheduler.fleet.engine.inline_busy(), scheduler.inline_before
    for group in scheduler.program.groups:
        if group.placement != "driver":
            continue
        members = scheduler.fleet.group(group.uid)
        total = sum(busy.get(a.name, 0.0) - before.get(a.name, 0.0) for a in members)
        lines = list(_operators(scheduler, homes, group, "driver", seconds))
        yield from lines
        rest = total - sum(line.seconds for line in lines if line.part_of is None)
        if rest > 0:
            name = f"messages to {scheduler.program.group_names[group.uid]}"
            told = sum(a.mail.told for a in members)
            yield TimeShare(name, "driver", "operator", told, rest, rest / seconds)


def _group(scheduler: Scheduler, homes: Homes, group: Actors, seconds: float) -> list[TimeShare]:
    """One group of actors: its operators, their parts, and the rest of its time."""
    name = scheduler.program.group_names[group.uid]
    members = scheduler.fleet.group(group.uid)
    available = seconds * max(1, len(members))
    lines = list(_operators(scheduler, homes, group, name, available))
    busy = sum(line.seconds for line in lines if line.part_of is None)
    idle = max(0.0, available - busy)
    if members:
        lines.append(TimeShare("idle, messages", name, "rest", 0, idle, idle / available))
    return lines


def _operators(
    scheduler: Scheduler, homes: Homes, group: Actors, where: str, available: float
) -> Iterator[TimeShare]:
    """Operators inside the actors of a group, and what these have told of their parts."""
    names = scheduler.program.names
    for node in (node for node, uids in homes.items() if group.uid in uids):
        name, stats = names[node], scheduler.stats_of(names[node])
        if stats.busy <= 0:
            continue
        share = stats.busy / available
        yield TimeShare(name, where, "operator", stats.items, stats.busy, share)
        for part, seconds in stats.inside.items():
            yield TimeShare(part, where, "operator", 0, seconds, seconds / available, part_of=name)
    for state in scheduler.backgrounds:
        if state.actor.handle.group.uid == group.uid:
            name, items, busy = state.operator, state.stats.items, state.stats.busy
            yield TimeShare(name, where, "operator", items, busy, busy / available)


def _homes(program: Program) -> Homes:
    homes: Homes = {}
    for node in program.nodes:
        if not node.parallel:
            continue
        if "actors" in node.options:
            homes[node] = frozenset((node["actors"].uid,))
        else:
            homes[node] = frozenset().union(*(homes[input_] for input_ in node.inputs))
    return homes
