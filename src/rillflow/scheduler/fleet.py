"""Actors as the scheduler sees them: incarnations, requests on their way, what they answer.

Requests go out and events come in here. What a failure means is decided in `supervision.py`, what
becomes of messages in `mail.py`.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rillflow.engines.contract import ActorSpec, Completed, Engine, Event, Lost, Started, Told
from rillflow.graph.handles import ActorHandle, Actors
from rillflow.scheduler.actor import Actor, Answer, Fields, Request, Target
from rillflow.scheduler.background_snapshots import Restored
from rillflow.scheduler.mail import Mail, PostOffice
from rillflow.scheduler.supervision import Supervision
from rillflow.scheduler.timers import Timers
from rillflow.seeding import derive_seed
from rillflow.types import ActorInfo, Adaptive, FailurePolicy, Header, Ref


class Fleet:
    """All actors of a run."""

    def __init__(self, engine: Engine, seed: int, default_policy: FailurePolicy) -> None:
        self.engine = engine
        self.seed = seed
        self.default_policy = default_policy
        self.actors: dict[str, Actor] = {}
        """every actor there was, by name"""
        self.by_uid: dict[str, Actor] = {}
        """every actor there was, by the uid of its handle"""
        self.in_flight = 0
        """requests and calls that nobody has answered"""
        self.inline = 0
        """requests and calls that the driver has to answer itself"""
        self.errors: deque[Exception] = deque()
        """what the user has to be told"""
        self.timers = Timers(engine.now)
        self.counters: Counter[str] = Counter()
        self.office = PostOffice()
        self.supervision = Supervision(self)
        self.office.on_crowded = self._watch
        self.paused = False
        """no shard makes a new request while the run is being saved or restored"""
        self.on_fault: list[Callable[[str], None]] = []
        """called with a sentence for each failure that the run goes on after"""
        self.log: Callable[..., None] | None = None
        """called with what happens, if somebody wants to know"""
        self.counted_from = 0.0
        """when the counting of times began, on the engine's clock"""
        self._ids = itertools.count(1)
        self._now = engine.now

    def log_to(self, log: Callable[..., None]) -> None:
        """Tell somebody what happens."""
        self.log = self.office.log = log

    def group(self, uid: str) -> list[Actor]:
        """The actors of one group."""
        return [actor for actor in self.actors.values() if actor.group == uid]

    # -- life and death ------------------------------------------------------------------------

    def add(
        self, name: str, handle: ActorHandle, code: bytes, incarnation: int = 0, asked: int = 0
    ) -> Actor:
        """A new actor, started at once."""
        actor = self._make(name, handle, code)
        actor.incarnation, actor.seq = incarnation, asked
        self.start(actor)
        self.actors[name] = self.by_uid[handle.uid] = actor
        return actor

    def remember(self, name: str, handle: ActorHandle) -> None:
        """An actor of a saved run that had left: items that it made may still be there."""
        actor = self._make(name, handle, b"")
        actor.status = "gone"
        self.actors[name] = self.by_uid[handle.uid] = actor

    def _make(self, name: str, handle: ActorHandle, code: bytes) -> Actor:
        group: Actors = handle.group
        mail = Mail(self.office.account(group.uid), group.mailbox)
        policy = group.policy or self.default_policy
        inline = group.placement == "driver"
        if isinstance(policy.timeout, Adaptive) and (inline or self.engine.actors_in_driver):
            policy = replace(policy, timeout=None)  # nobody hangs alone there
        actor = Actor(name, handle, group.uid, policy, code, mail)
        actor.inline = inline
        return actor

    def start(self, actor: Actor) -> None:
        """Bring an incarnation to life: its pipelines, then the newest messages."""
        group: Actors = actor.handle.group
        if self.log is not None:
            self.log("start", actor.name, actor.incarnation)
        actor.proven = actor.proven or actor.answered
        actor.started = actor.answered = False
        actor.begun = self.engine.now()
        actor.port = self.engine.start(
            ActorSpec(
                info=ActorInfo(
                    name=actor.name,
                    index=actor.handle.index,
                    incarnation=actor.incarnation,
                    seed=derive_seed(self.seed, actor.name, actor.incarnation),
                    run_seed=self.seed,
                    engine=self.engine.name,
                    asked=actor.seq,
                ),
                placement=group.placement,
                code=actor.code,
                handle=actor.handle,
                resources=group.resources,
                mailbox=group.mailbox,
            )
        )
        for pipeline, code in actor.pipelines.items():
            actor.port.send(("install", pipeline, code))
        if actor.kept is not None:
            self.call(actor, Restored(self.errors, actor.name), "set_state", actor.kept)
        self.office.welcome(actor)

    def install(self, actor: Actor, pipeline: str, code: bytes, target: Target) -> None:
        """Teach an actor a pipeline; repeated for each new incarnation."""
        actor.pipelines[pipeline] = code
        actor.targets.append(target)
        if actor.status == "gone":
            target.actor_gone()
        elif actor.status != "waiting":
            actor.port.send(("install", pipeline, code))

    def remove(self, actor: Actor) -> None:
        """The actor gets no more requests, and ends when those on their way are answered."""
        if actor.status in ("gone", "leaving"):
            return
        was_waiting = actor.status == "waiting"
        actor.status = "leaving"
        for target in list(actor.targets):
            target.actor_gone()
        if was_waiting:
            self._end(actor)
        else:
            self.leave_if_idle(actor)

    def leave_if_idle(self, actor: Actor) -> None:
        """An actor that was removed ends with its last answer."""
        if actor.status == "leaving" and not actor.requests:
            self.settle_inside(actor, "removed")
            actor.port.retire()
            self._end(actor)

    def retire(self, actor: Actor) -> None:
        """The actor ends for good."""
        actor.port.kill()
        self._end(actor)

    def _end(self, actor: Actor) -> None:
        actor.status, actor.kept = "gone", None
        self.office.departed(actor)
        if self.log is not None:
            self.log("gone", actor.name, actor.incarnation)

    # -- requests ------------------------------------------------------------------------------

    def request(self, request: Request, pipeline: str, payload: Ref | None = None) -> None:
        """Ask an actor for an item, or, with a payload, to go on with an item handed to it."""
        actor = request.actor
        mail = actor.mail
        if mail.unsent:
            self.office.catch_up(actor)
        request.seq = seq = actor.seq
        actor.seq = seq + 1
        request.id = ident = next(self._ids)
        request.issued = self._now()
        request.told = mail.told
        actor.requests[ident] = request
        self.in_flight += 1
        if actor.inline:
            self.inline += 1
        if actor.policy.timeout is not None:
            self._watch(actor)
        if self.log is not None:
            self.log("request", actor.name, actor.incarnation, seq)
        sources: tuple[Any, ...] = ()
        if payload is not None:
            sources = tuple([ticket.source for ticket in request.tickets])
        actor.port.send(("request", ident, pipeline, seq, sources), payload)

    def _watch(self, actor: Actor) -> None:
        """Whoever owes something is looked after, if its policy says so."""
        if actor.policy.timeout is not None and not actor.watched:
            self.supervision.watch(actor)

    def call(self, actor: Actor, answer: Answer, method: str, payload: Ref) -> None:
        """Call a method of an actor's host."""
        request = Request(actor, answer, method)
        if actor.mail.unsent:
            self.office.catch_up(actor)
        request.id = next(self._ids)
        request.issued = self.engine.now()
        actor.requests[request.id] = request
        self.in_flight += 1
        self.inline += actor.inline
        actor.port.send(("call", request.id, method), payload)

    # -- events --------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Take in one event of the engine."""
        if type(event) is not Completed:
            self._news(event)  # type: ignore[arg-type]
            return
        name, _, ident, fields, payload = event
        actor = self.actors[name]
        request = actor.requests.pop(ident, None)  # an actor that is lost has no request any more
        if request is None:
            self._is_late(actor, event)
            return
        self.in_flight -= 1
        if actor.inline:
            self.inline -= 1
        before = actor.last_heard
        actor.last_heard = now = self._now()
        handled, wall = fields[_HANDLED], fields[_WALL]
        if handled != actor.mail.handled:
            self.office.handled(actor, handled)
        if request.issued < self.counted_from and wall > now - self.counted_from:
            fields = _shortened(fields, now - self.counted_from)  # the work began before
            wall = fields[_WALL]
        actor.busy += wall
        if fields[_FAILURE] is not None:
            self.supervision.failed(actor, request, Header._make(fields), fields[_FAILURE])
            return
        if request.seq >= 0 and not fields[_NOT_READY]:  # what an actor is there for: no calls
            actor.answered = True
            silent = now - (request.issued if request.issued > before else before)
            if silent > actor.slowest:
                actor.slowest = silent
        if self.log is not None:
            self.log("completed", actor.name, actor.incarnation, request.seq)
        request.target.completed(request, fields, payload)
        if actor.status == "leaving":
            self.leave_if_idle(actor)

    def _is_late(self, actor: Actor, event: Event) -> bool:
        """Whether an event is of an incarnation that is over; then it is counted."""
        if event.incarnation == actor.incarnation and actor.status not in ("waiting", "gone"):
            return False
        self.counters["late_rejected"] += 1
        if self.log is not None:
            self.log("late", event.actor, event.incarnation)
        return True

    def _news(self, event: Started | Told | Lost) -> None:
        actor = self.actors[event.actor]
        if self._is_late(actor, event):
            return
        actor.last_heard = self._now()
        if isinstance(event, Started):
            actor.started = True
            return
        if isinstance(event, Lost):
            self.supervision.lost(actor, event.reason, event.failure)
            return
        if event.handled < 0:
            self.office.never_arrived(actor, -event.handled)
        else:
            self.office.handled(actor, event.handled)
            self.office.raised(actor, len(event.failures))
        for failure in event.failures:
            self.supervision.message_failed(actor, failure)

    def operator_of(self, event: Event) -> str:
        """The path of the operator that an event answers."""
        if type(event) is not Completed:
            return ""
        actor = self.actors.get(event.actor)
        request = None if actor is None else actor.requests.get(event.request)
        return "" if request is None else request.target.operator

    # -- what an actor had ---------------------------------------------------------------------

    def take_down(self, actor: Actor) -> list[Request]:
        """Everything an actor still had is lost with it; the caller tells whoever asked for it."""
        lost = list(actor.requests.values())
        actor.requests.clear()
        self.in_flight -= len(lost)
        self.inline -= len(lost) * actor.inline
        self.settle_inside(actor, "worker_lost")
        return lost

    def settle_inside(self, actor: Actor, reason: str) -> None:
        """Items that an operator keeps inside the actor end with it."""
        inside, actor.inside = actor.inside, {}
        for tickets in inside.values():
            for ticket in tickets:
                ticket.finish(reason)

    @property
    def expects_events(self) -> bool:
        """Whether anything can still happen by itself."""
        if self.in_flight or self.timers:
            return True
        if not self.office.crowded:
            return False
        return any(a.mail.crowded and a.status == "live" for a in self.actors.values())


_HANDLED, _WALL, _FAILURE, _NOT_READY = map(
    Header._fields.index, ("handled", "wall", "failure", "not_ready")
)


def _shortened(fields: Fields, wall: float) -> Fields:
    header = Header._make(fields)
    scale = wall / header.wall
    times = tuple([seconds * scale for seconds in header.op_times])
    return tuple(header._replace(wall=wall, op_times=times))
