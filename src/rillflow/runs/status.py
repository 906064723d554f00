"""A running flow as plain data: what `status.json` of a run directory holds, and the view shows.

format       1
time         when it was taken, in seconds since 1970
host, pid    of the process that runs the flow
state        running, finished (its stream ended), stopped (by the user) or failed
error        why it failed, or null
seconds      since the first answer, by the engine's clock (virtual on `sim`)
verdict      what limits the throughput, as a sentence
bottleneck   the resource it names, as in `resources`; null while nothing is saturated
operators    one line each as in `run.stats()`; names are the ids of boxes in `graph.json`
busy         shares of the time of: environments and acting (of all workers'), the learner, the GPU,
             as far as there are any
resources    the driver and each group: kind, name, count, utilisation, messages sent to it,
             restarts and errors
waiting      actors that have not answered for much longer than usual: name and seconds
queues       name, depth and capacity
workers      each actor: group, status, busy seconds, open requests, restarts, errors, process
ledger       whether it balances, and one line per source and branch
counters     of the run as a whole
evaluation   of a training run: how often, how many, which is under way, the last one's return
best         of a training run: by what its best policy was judged, its score, after how many steps
callbacks    of a training run: calls and seconds of each
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakMethod

from rillflow.runs.busy import busy, machine_of
from rillflow.scheduler.ledger import Balance
from rillflow.scheduler.report import overdue
from rillflow.scheduler.stats import OperatorStats, RunStats

if TYPE_CHECKING:
    from rillflow.scheduler.run import Run
    from rillflow.scheduler.scheduler import Scheduler

Json = dict[str, Any]
_TRIES = 20
_Members = frozenset[tuple[str, int, str, bool]]
_Pids = tuple[_Members, dict[str, int]]
_known_pids: WeakKeyDictionary[Run[Any], _Pids] = WeakKeyDictionary()
_more: WeakKeyDictionary[Run[Any], WeakMethod[Callable[[], Json]]] = WeakKeyDictionary()


def add_facts(run: Run[Any], facts: Callable[[], Json]) -> None:
    """What whoever drives a run has to say of it: asked for with each status, from any thread.

    Args:
        run: of which there is more to say.
        facts: a method; it is not kept alive, for whoever it belongs to knows the run.
    """
    _more[run] = WeakMethod(facts)


def snapshot(run: Run[Any], *, state: str | None = None, error: object = None) -> Json:
    """Everything there is to see of a run now; cheap, and from any thread.

    >>> import rillflow as rf
    >>> with rf.from_range(3, num_shards=2).gather_sync().run("sim") as run:
    ...     rounds = list(run)
    >>> now = snapshot(run)
    >>> now["state"], [(line["name"], line["items"]) for line in now["operators"]]
    ('finished', [('from_range(3)', 3), ('gather_sync', 2)])

    Args:
        run: the run.
        state: overrides what the run itself knows, as for a loop that was left at its goal.
        error: an exception or a text; the run has failed.
    """
    for _ in range(_TRIES):
        try:
            return _snapshot(run, state, error)
        except RuntimeError as raced:
            # the run's own thread goes on meanwhile, and may add to what is iterated here
            if "changed size" not in str(raced) and "mutated" not in str(raced):
                raise
    return _snapshot(run, state, error)


def _snapshot(run: Run[Any], state: str | None, error: object) -> Json:
    stats, scheduler = run.stats(), run._scheduler
    if state is None:
        told = {"ended": "finished", "stopped": "stopped", "failed": "failed"}
        state = told.get(run.state, "running")
    if error is not None:
        state = "failed"
    more = _more.get(run)
    facts = None if more is None else more()
    resources = _resources(stats, scheduler)
    return {
        "format": 1,
        "time": time.time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "state": state,
        "error": _message(error),
        "seconds": round(stats.seconds, 4),
        "verdict": stats.verdict,
        "bottleneck": _bottleneck(stats, resources),
        "driver_waiting": round(stats.driver_waiting, 4),
        "operators": [_operator(line) for line in stats.operators],
        "busy": busy(stats, machine_of(run)),
        "resources": resources,
        "waiting": _waiting(run, scheduler),
        "queues": _queues(scheduler),
        "workers": _workers(run, scheduler, over=state != "running"),
        "ledger": _ledger(run),
        "counters": stats.counters,
        **({} if facts is None else facts()),
    }


def _message(error: object) -> str | None:
    if not isinstance(error, BaseException):
        return None if error is None else str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _operator(line: OperatorStats) -> Json:
    """As `dataclasses.asdict`, which takes ten times as long."""
    return {
        "name": line.name,
        "where": line.where,
        "items": line.items,
        "rate": round(line.rate, 4),
        "busy": round(line.busy, 4),
        "utilisation": round(line.utilisation, 4),
        "depth": line.depth,
        "capacity": line.capacity,
        "in_flight": line.in_flight,
        "lag_mean": round(line.lag_mean, 4),
        "lag_max": line.lag_max,
        "counters": line.counters,
    }


def _resources(stats: RunStats, scheduler: Scheduler) -> list[Json]:
    """The driver first, then each group of actors."""
    program = scheduler.program
    messages = dict.fromkeys(program.group_names, 0)
    for actor in list(scheduler.fleet.actors.values()):
        messages[actor.group] += actor.mail.told
    places = [("driver", "driver", 0)]
    background = {one.actors.uid for one in program.backgrounds}
    for group in program.groups:
        kind = "background" if group.uid in background else "actors"
        places.append((kind, program.group_names[group.uid], messages[group.uid]))
    return [
        {
            "kind": kind,
            "name": name,
            "count": line.count,
            "utilisation": round(line.utilisation, 4),
            "messages": sent,
            "restarts": line.restarts,
            "errors": line.errors,
        }
        for (kind, name, sent), line in zip(places, stats.resources, strict=True)
    ]


def _waiting(run: Run[Any], scheduler: Scheduler) -> list[Json]:
    if run.state != "running":
        return []
    silent = overdue(scheduler, run.engine.now())
    return [{"name": name, "seconds": round(seconds, 1)} for name, seconds in silent.items()]


def _bottleneck(stats: RunStats, resources: list[Json]) -> Json | None:
    """The resource that the verdict names, as `resources` has it."""
    for told, line in zip(resources, stats.resources, strict=True):
        if line.name == stats.bottleneck:
            return {"kind": told["kind"], "name": told["name"]}
    return None


def _queues(scheduler: Scheduler) -> list[Json]:
    """Under their names in the graph, where a second queue of a name has a number."""
    lines: list[Json] = []
    taken: set[str] = set()
    for queue in scheduler.program.queues:
        name, number = queue.name, 2
        while name in taken:
            name, number = f"{queue.name}#{number}", number + 1
        taken.add(name)
        state = scheduler.queues.get(queue.uid)  # none before the run begins
        depth = 0 if state is None else len(state.items)
        lines.append({"name": name, "depth": depth, "capacity": queue.capacity})
    return lines


def _workers(run: Run[Any], scheduler: Scheduler, *, over: bool) -> list[Json]:
    actors = list(scheduler.fleet.actors.values())
    members = frozenset((a.name, a.incarnation, a.status, a.started) for a in actors)
    pids = {} if over else _pids(run, members)
    names = scheduler.program.group_names
    return [
        {
            "name": actor.name,
            "group": names[actor.group],
            "status": "ended" if over and actor.status != "gone" else actor.status,
            "busy": round(actor.busy, 4),
            "in_flight": len(actor.requests),
            "restarts": actor.counters["restarts"],
            "errors": actor.counters["errors"],
            "incarnation": actor.incarnation,
            "pid": pids.get(actor.name),
        }
        for actor in actors
    ]


def _pids(run: Run[Any], members: _Members) -> dict[str, int]:
    """Asked for only when an actor is new, has started, or is lost: on a cluster the question goes
    over the network."""
    known = _known_pids.get(run)
    if known is None or known[0] != members:
        known = _known_pids[run] = (members, run.engine.pids())
    return known[1]


def _ledger(run: Run[Any]) -> Json:
    lines = run.ledger().balances()
    return {"balanced": all(line.balanced for line in lines), "lines": [_line(x) for x in lines]}


def _line(line: Balance) -> Json:
    return {
        "source": line.source,
        "branch": line.branch,
        "produced": line.produced,
        "in_flight": line.in_flight,
        "held": line.held,
        "done": line.done,
        "dropped": line.dropped,
    }
