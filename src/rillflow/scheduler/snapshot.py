"""The state of a run, as a cut at a step boundary: nothing is on its way, nothing is lost.

Requests are let in first, and what they brought is saved with the operators that hold it. After
the cut the run goes on exactly as a run restored from it would: both ask all shards anew, nobody
waits any longer for items that were on their way through the driver, and on `sim` both draw from
the same, freshly seeded generators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rillflow.engines.contract import Engine
from rillflow.errors import RunError
from rillflow.scheduler.actor import Actor
from rillflow.scheduler.envelope import Envelope
from rillflow.scheduler.gather import AsyncGather, Gather, SyncGather
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.merge import SplitStep, UnionStep
from rillflow.scheduler.queues import EnqueueStep
from rillflow.scheduler.route import Route
from rillflow.scheduler.scheduler import Scheduler
from rillflow.scheduler.transform import TransformStep
from rillflow.seeding import derive_seed
from rillflow.types import Ref, read

if TYPE_CHECKING:
    from rillflow.scheduler.run import Run

FORMAT = 1


class _Tickets:
    """Tickets as numbers while they are saved: one held in two places stays one."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.rows: list[dict[str, Any]] = []

    def number(self, ticket: Ticket) -> int:
        if id(ticket) not in self.numbers:
            self.numbers[id(ticket)] = len(self.rows)
            row: dict[str, Any] = {
                "source": list(ticket.source),
                "account": [ticket.account.source, *ticket.account.path],
                "outcome": ticket.outcome,
                "pieces": ticket.pieces,
                "sent": ticket.sent,
            }
            self.rows.append(row)
            forks = ticket.forks
            row["forks"] = forks and {name: self.number(fork) for name, fork in forks.items()}
        return self.numbers[id(ticket)]

    def encode(self, value: Any) -> Any:
        """Plain data: references are read, tickets become their numbers."""
        if isinstance(value, Ticket):
            return {"ticket": self.number(value)}
        if isinstance(value, Ref):
            return value.get()
        if type(value) in (list, tuple):
            return type(value)(self.encode(v) for v in value)
        if type(value) is dict:
            return {k: self.encode(v) for k, v in value.items()}
        return value

    def envelope(self, envelope: Envelope) -> dict[str, Any]:
        return {
            "value": read(envelope.value),
            "tickets": [self.number(t) for t in envelope.tickets],
        }


def take(run: Run[Any], scheduler: Scheduler) -> dict[str, Any]:
    """Let every request come in, then save everything by name."""
    run.quiesce()
    for step in scheduler.steps.values():
        step.cut()
    tickets = _Tickets()
    names = {step: scheduler.program.names[node] for node, step in scheduler.steps.items()}
    state: dict[str, Any] = {
        "format": FORMAT,
        "cut": scheduler.cut + 1,
        "clock": scheduler.fleet.engine.now(),
        "actors": {
            a.name: _actor(run, scheduler, a, tickets)
            for a in scheduler.fleet.actors.values()
            if a.status == "live"
        },
        "operators": {name: _step(step, tickets) for step, name in names.items()},
        "queues": {
            q.queue.name: {
                "items": [tickets.envelope(e) for e in q.items],
                "producers": sorted(q.producers),
            }
            for q in scheduler.queues.values()
        },
        "counters": {
            name: {"items": s.items, "counters": dict(s.counters)}
            for name, s in scheduler.stats.items()
        },
        "run_counters": dict(scheduler.fleet.counters),
        "shared": {
            _stable(scheduler, key): state
            for key, state in (
                *scheduler.waiting_states.items(),
                *((k, v.get_state()) for k, v in scheduler.shared.items() if _has_state(v)),
            )
        },
        "ledger": {name: account.state() for name, account in scheduler.ledger.accounts.items()},
    }
    state["tickets"] = tickets.rows
    _go_on(scheduler, state["cut"], state["clock"])
    return state


def restore(run: Run[Any], scheduler: Scheduler, state: dict[str, Any]) -> None:
    """Bring a freshly built, not yet begun scheduler into a saved state."""
    if state.get("format") != FORMAT:
        raise RunError(
            f"this state has format {state.get('format')!r}; this version reads {FORMAT}."
        )
    for name, account in state["ledger"].items():
        scheduler.ledger.account(name).restore(account)
    tickets = [_ticket(scheduler, row) for row in state["tickets"]]
    for ticket, row in zip(tickets, state["tickets"], strict=True):
        ticket.forks = row["forks"] and {name: tickets[i] for name, i in row["forks"].items()}
    steps = {scheduler.program.names[node]: step for node, step in scheduler.steps.items()}
    _same_names("operators", set(steps), set(state["operators"]))
    for name, saved in state["operators"].items():
        _restore_step(steps[name], saved, tickets)
    for queue in scheduler.queues.values():
        saved = state["queues"][queue.queue.name]
        queue.items.extend(_envelope(row, tickets) for row in saved["items"])
        queue.producers = set(saved["producers"])
    for name, saved in state["counters"].items():
        scheduler.stats_of(name).items = saved["items"]
        scheduler.stats_of(name).counters.update(saved["counters"])
    scheduler.fleet.counters.update(state["run_counters"])
    for key, saved in state["shared"].items():
        scheduler.restore_shared(_live(scheduler, key), saved)
    _same_names(
        "actors",
        {n for n, a in scheduler.fleet.actors.items() if a.status == "live"},
        set(state["actors"]),
    )
    for name, saved in state["actors"].items():
        _restore_actor(run, scheduler, scheduler.fleet.actors[name], saved, tickets)
    _go_on(scheduler, state["cut"], state["clock"])


def _go_on(scheduler: Scheduler, cut: int, clock: float) -> None:
    scheduler.cut = cut
    scheduler.fleet.engine.cut(derive_seed(scheduler.seed, "cut", cut), clock)
    scheduler.fleet.paused = False
    scheduler.begin()


def _has_state(value: object) -> bool:
    return hasattr(value, "get_state") and hasattr(value, "set_state")


def _stable(scheduler: Scheduler, key: str) -> str:
    """A key as it is saved: a group of actors by its name, since its uid is another in each build.

    `learner 5f2c... default` is saved as `learner <worker> default`.
    """
    for uid, name in scheduler.program.group_names.items():
        key = key.replace(uid, f"<{name}>")
    return key


def _live(scheduler: Scheduler, key: str) -> str:
    """The reverse of `_stable`, with the uids of this build."""
    for uid, name in scheduler.program.group_names.items():
        key = key.replace(f"<{name}>", uid)
    return key


def _actor(run: Run[Any], scheduler: Scheduler, actor: Actor, tickets: _Tickets) -> dict[str, Any]:
    return {
        "host": tickets.encode(run.ask(actor, "get_state", None)),
        "seq": actor.seq,
        "versions_sent": actor.versions_sent,
        "last_version": {_stable(scheduler, key): v for key, v in actor.last_version.items()},
        "sticky": {
            _stable(scheduler, key): [method, payload.get(), spread, version]
            for key, (method, payload, spread, version) in actor.sticky.items()
        },
        "held": {str(seq): tickets.number(ticket) for seq, ticket in actor.held.items()},
    }


def _restore_actor(
    run: Run[Any], scheduler: Scheduler, actor: Actor, saved: dict[str, Any], tickets: list[Ticket]
) -> None:
    run.ask(actor, "set_state", saved["host"])
    actor.seq = saved["seq"]
    actor.versions_sent = saved["versions_sent"]
    actor.last_version = {_live(scheduler, key): v for key, v in saved["last_version"].items()}
    actor.held = {int(seq): tickets[number] for seq, number in saved["held"].items()}
    for key, (method, value, spread, version) in saved["sticky"].items():
        actor.sticky[_live(scheduler, key)] = (
            method,
            scheduler.fleet.engine.put(value),
            spread,
            version,
        )


def _step(step: object, tickets: _Tickets) -> Any:
    if isinstance(step, TransformStep):
        return {
            "state": tickets.encode(step.transform.get_state()),
            "ended": step.upstream_ended,
            "out": [tickets.envelope(e) for e in step.out],
        }
    if isinstance(step, UnionStep):
        return step.get_state()
    if isinstance(step, SplitStep):
        return {
            "ended": step.ended,
            "left": sorted(step.left),
            "buffers": [[tickets.envelope(e) for e in buffer] for buffer in step.buffers],
        }
    if isinstance(step, EnqueueStep):
        return {"pending": None if step.pending is None else tickets.envelope(step.pending)}
    if isinstance(step, Gather):
        return {
            "ended": [shard.index for shard in step.shards if shard.ended],
            "items": _gathered(step, tickets),
            "metrics": [[[seq, dict(one)] for seq, one in shard.metrics] for shard in step.shards],
            "route": _route(step.route, tickets),
        }
    return None


def _gathered(gather: Gather, tickets: _Tickets) -> list[dict[str, Any]]:
    if isinstance(gather, AsyncGather):
        pairs = [(shard.index, envelope) for shard, envelope in gather.ready]
    else:
        assert isinstance(gather, SyncGather)
        pairs = [(i, envelope) for i, buffer in enumerate(gather.buffers) for envelope in buffer]
    return [{"shard": index, **tickets.envelope(envelope)} for index, envelope in pairs]


def _route(route: Route | None, tickets: _Tickets) -> dict[str, Any] | None:
    if route is None:
        return None
    return {
        "buffers": [[tickets.envelope(e) for e in buffer] for buffer in route.buffers],
        "dealt": dict(route.dealt),
        "ended": route.ended,
    }


def _restore_route(route: Route | None, saved: Any, tickets: list[Ticket], engine: Engine) -> None:
    if route is None:
        return
    route.dealt, route.ended = dict(saved["dealt"]), saved["ended"]
    for buffer, rows in zip(route.buffers, saved["buffers"], strict=True):
        for row in rows:
            envelope = _envelope(row, tickets)
            envelope.value, envelope.lazy = engine.put(envelope.value), True
            buffer.append(envelope)


def _restore_step(step: object, saved: Any, tickets: list[Ticket]) -> None:
    if isinstance(step, TransformStep):
        step.transform.set_state(_decode(saved["state"], tickets))
        step.upstream_ended = saved["ended"]
        step.out.extend(_envelope(row, tickets) for row in saved["out"])
    elif isinstance(step, UnionStep):
        step.set_state(saved)
    elif isinstance(step, SplitStep):
        step.ended, step.left = saved["ended"], set(saved["left"])
        for buffer, rows in zip(step.buffers, saved["buffers"], strict=True):
            buffer.extend(_envelope(row, tickets) for row in rows)
    elif isinstance(step, EnqueueStep):
        row = saved["pending"]
        step.pending = None if row is None else _envelope(row, tickets)
    elif isinstance(step, Gather):
        for index in saved["ended"]:
            step.shards[index].ended = True
        for shard, metrics in zip(step.shards, saved["metrics"], strict=True):
            shard.metrics = [(seq, one) for seq, one in metrics]
        step.adopt([(row["shard"], _envelope(row, tickets)) for row in saved["items"]])
        _restore_route(step.route, saved["route"], tickets, step.fleet.engine)


def _envelope(row: dict[str, Any], tickets: list[Ticket]) -> Envelope:
    return Envelope(row["value"], tuple(tickets[number] for number in row["tickets"]))


def _decode(value: Any, tickets: list[Ticket]) -> Any:
    if type(value) is dict:
        if set(value) == {"ticket"}:
            return tickets[value["ticket"]]
        return {k: _decode(v, tickets) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_decode(v, tickets) for v in value)
    return value


def _ticket(scheduler: Scheduler, row: dict[str, Any]) -> Ticket:
    source, *path = row["account"]
    account = scheduler.ledger.account(source)
    for branch in path:
        account = account.child(branch)
    actor, incarnation, seq, version = row["source"]
    ticket = Ticket(actor, incarnation, seq, version, account, row["sent"])
    ticket.outcome, ticket.pieces = row["outcome"], row["pieces"]
    return ticket


def _same_names(what: str, here: set[str], saved: set[str]) -> None:
    if here != saved:
        raise RunError(
            f"this state belongs to another flow: its {what} differ. Only here: "
            f"{sorted(here - saved) or 'none'}; only in the state: "
            f"{sorted(saved - here) or 'none'}."
        )
