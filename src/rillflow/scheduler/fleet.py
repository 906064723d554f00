"""Actors as the scheduler sees them: incarnations, requests on their way, messages, supervision.

The one place that talks to the engine about actors, and that decides what a failure means.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter, deque
from collections.abc import Callable

from rillflow.engines.contract import ActorSpec, Completed, Engine, Failed, Lost
from rillflow.errors import ActorStartError, OperatorError, UserFailure, WorkerLost
from rillflow.graph.handles import ActorHandle, Actors
from rillflow.scheduler.actor import Actor, Request, Target
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.outbox import Outbox
from rillflow.scheduler.timers import Timers
from rillflow.seeding import derive_seed
from rillflow.types import ActorInfo, FailurePolicy, Header, Ref


def _shortened(header: Header, wall: float) -> Header:
    scale = wall / header.wall
    times = tuple([seconds * scale for seconds in header.op_times])
    return header._replace(wall=wall, op_times=times)


class Fleet:
    """All actors of a run, and the one place that talks to the engine about them."""

    def __init__(self, engine: Engine, seed: int, default_policy: FailurePolicy) -> None:
        self.engine = engine
        self.seed = seed
        self.default_policy = default_policy
        self.actors: dict[str, Actor] = {}
        self.by_uid: dict[str, Actor] = {}
        self.by_request: dict[int, Request] = {}
        self.errors: deque[Exception] = deque()
        self.timers = Timers(engine.now)
        self.counters: Counter[str] = Counter()
        self.outbox = Outbox(engine)
        self.seconds = 0.0
        """spent on making requests, with the messages that leave before them"""
        self.inline = 0
        """requests on their way to actors that live in the driver"""
        self.paused = False
        """no shard makes a new request while the run is being saved or restored"""
        self.log: Callable[..., None] | None = None
        """told what happens, if somebody wants to know"""
        self._ids = itertools.count(1)
        self.counted_from = 0.0
        """when the counting of times began, on the engine's clock"""

    def log_to(self, log: Callable[..., None]) -> None:
        """Tell somebody what happens."""
        self.log = self.outbox.log = log

    # -- life and death ------------------------------------------------------------------------

    def add(self, name: str, handle: ActorHandle, code: bytes) -> Actor:
        """A new actor, started at once."""
        policy = handle.group.policy or self.default_policy
        actor = Actor(name, handle, policy, code, inline=handle.group.placement == "driver")
        self.actors[name] = self.by_uid[handle.uid] = actor
        self._start(actor)
        return actor

    def _start(self, actor: Actor) -> None:
        group: Actors = actor.handle.group
        if self.log is not None:
            self.log("start", actor.name, actor.incarnation)
        self.engine.start(
            ActorSpec(
                info=ActorInfo(
                    name=actor.name,
                    index=actor.handle.index,
                    incarnation=actor.incarnation,
                    seed=derive_seed(self.seed, actor.name, actor.incarnation),
                    run_seed=self.seed,
                    engine=self.engine.name,
                ),
                placement=group.placement,
                code=actor.code,
                handle=actor.handle,
                resources=group.resources,
            )
        )
        for pipeline, code in actor.pipelines.items():
            self.engine.install(actor.name, pipeline, code)
        self.outbox.forget(actor)
        for message in actor.sticky.values():
            self.outbox.send(actor, message)

    def install(self, actor: Actor, pipeline: str, code: bytes, target: Target) -> None:
        """Teach an actor a pipeline; repeated for each new incarnation."""
        actor.pipelines[pipeline] = code
        actor.targets.append(target)
        self.engine.install(actor.name, pipeline, code)

    def remove(self, actor: Actor) -> None:
        """No more requests; the actor ends when those on their way are answered."""
        if actor.status == "gone":
            return
        waiting = actor.status == "waiting"
        actor.status = "gone" if waiting else "leaving"
        for target in list(actor.targets):
            target.actor_gone()
        self._leave_if_idle(actor)

    def _leave_if_idle(self, actor: Actor) -> None:
        if actor.status == "leaving" and not actor.requests:
            self._settle_held(actor, "removed")
            self._retire(actor)

    def _retire(self, actor: Actor) -> None:
        actor.status = "gone"
        if self.log is not None:
            self.log("gone", actor.name, actor.incarnation)
        self.engine.kill(actor.name)

    # -- requests and messages -----------------------------------------------------------------

    def request(
        self,
        actor: Actor,
        target: Target,
        pipeline: str,
        tickets: tuple[Ticket, ...],
        payload: Ref | None = None,
    ) -> None:
        """Ask an actor for an item, or, with a payload, to go on with an item that is handed to it.

        Without a payload the one ticket is the request's own, made for it.
        """
        began = self.engine.now()
        seq = actor.seq
        actor.seq = seq + 1
        ident = next(self._ids)
        own = payload is None
        request = Request(ident, actor, target, seq, tickets, began, own, actor.messages)
        actor.requests[ident] = self.by_request[ident] = request
        if actor.inline:
            self.inline += 1
        if actor.policy.timeout is not None and not actor.watched:
            actor.watched = True
            self.timers.at(request.issued + actor.policy.timeout, lambda: self._watch(actor))
        if self.log is not None:
            self.log("request", actor.name, actor.incarnation, seq)
        if actor.unsent:
            self.outbox.catch_up(actor)
        provenance = () if own else tuple(ticket.source for ticket in tickets)
        self.engine.request(actor.name, ident, pipeline, seq, payload, provenance)
        self.seconds += self.engine.now() - began

    def call(self, actor: Actor, target: Target, method: str, payload: Ref) -> Request:
        """Call a method of an actor's host, to be answered to `target`."""
        now = self.engine.now()
        request = Request(
            next(self._ids), actor, target, -1, (), now, False, actor.messages, method
        )
        actor.requests[request.id] = self.by_request[request.id] = request
        if actor.inline:
            self.inline += 1
        if actor.unsent:
            self.outbox.catch_up(actor)
        self.engine.call(actor.name, request.id, method, payload)
        return request

    def tell(
        self,
        actor: Actor,
        method: str,
        payload: Ref,
        spread: bool,
        version: int | None = None,
        key: str | None = None,
    ) -> None:
        """Send a message; handled before any request issued to the actor later."""
        channel: str | None = None
        if version is not None:
            channel = key or method
            if actor.last_version.get(channel) == version:
                return
            actor.last_version[channel] = version
            actor.versions_sent += 1
            key = channel  # weights are always given to a new incarnation
        message = method, payload, spread, version
        if key is not None:
            actor.sticky[key] = message
        if actor.status in ("live", "leaving"):
            actor.messages += 1
            self.outbox.put(actor, message, channel)
            if actor.parked:
                parked, actor.parked = actor.parked, []
                for ask_again in parked:
                    ask_again()

    def before_waiting(self) -> None:
        """Whatever has not left leaves now, unless the driver waits for an actor of its own."""
        if not self.inline:
            self.outbox.catch_up_all()

    # -- events --------------------------------------------------------------------------------

    def handle(self, event: Completed | Failed | Lost) -> None:
        """Take in one event of the engine."""
        actor = self.actors[event.actor]
        if event.incarnation != actor.incarnation or actor.status in ("waiting", "gone"):
            self.counters["late_rejected"] += 1
            if self.log is not None:
                self.log("late", event.actor, event.incarnation)
            return
        if isinstance(event, Completed):
            self._completed(actor, event)
        elif isinstance(event, Failed):
            self._failed(actor, event)
        else:
            self._lost(actor, event.reason, event.failure)

    def _completed(self, actor: Actor, event: Completed) -> None:
        request = self._pop(event.request)
        if request is None:
            return
        if self.log is not None:
            self.log("completed", actor.name, actor.incarnation, request.seq)
        actor.failures_in_a_row = 0
        actor.handled = request.messages
        actor.last_answer = now = self.engine.now()
        header = event.header
        if header.wall > now - self.counted_from:  # it began before the counting did
            header = _shortened(header, now - self.counted_from)
        actor.busy += header.wall
        request.took = now - request.issued
        request.target.completed(request, header, event.payload)
        if actor.status == "leaving":
            self._leave_if_idle(actor)

    def operator_of(self, event: Completed | Failed | Lost) -> str:
        """The path of the operator that an event answers."""
        request = None if isinstance(event, Lost) else self.by_request.get(event.request or 0)
        return "" if request is None else request.target.operator

    def _pop(self, request_id: int) -> Request | None:
        request = self.by_request.pop(request_id, None)
        if request is not None:
            del request.actor.requests[request_id]
            if request.actor.inline:
                self.inline -= 1
        return request

    def _failed(self, actor: Actor, event: Failed) -> None:
        request = None if event.request is None else self._pop(event.request)
        operator = event.failure.operator or (request.target.operator if request else actor.name)
        if request is not None and event.failure.operator:
            operator = f"{request.target.operator} > {event.failure.operator}"
        error = OperatorError.build(event.failure, operator, actor.name)
        if self.log is not None:
            self.log("failed", actor.name, actor.incarnation, event.failure.type_name)
        actor.counters["errors"] += 1
        actor.failures_in_a_row += 1
        actor.last_answer = self.engine.now()
        reaction = actor.policy.on_error
        if request is None or request.label:  # a message or a call: there is no item to drop
            reaction = "restart" if reaction == "restart" else "raise"
        limits = {"retry": actor.policy.max_retries, "drop": actor.policy.max_drops}
        if actor.failures_in_a_row > limits.get(reaction, sys.maxsize):
            reaction = "raise"  # it is not transient
        if request is not None:
            self._drop(request, "retried" if reaction == "retry" else "error")
        lost = [] if request is None else [request]
        if reaction == "raise":
            self.errors.append(error)
        elif reaction == "restart":
            lost += self._take_down(actor)
            self._restart(actor, error)
        elif reaction == "shrink":
            lost += self._take_down(actor)
            self._shrink(actor, error)
        for one in lost:
            one.target.abandoned(one)
        self._leave_if_idle(actor)

    def _watch(self, actor: Actor) -> None:
        """Is the oldest request overdue? Its time runs from when the actor could turn to it."""
        actor.watched = False
        timeout = actor.policy.timeout
        if timeout is None or not actor.requests or actor.status not in ("live", "leaving"):
            return
        oldest = next(iter(actor.requests.values()))
        deadline = max(oldest.issued, actor.last_answer) + timeout
        if deadline <= self.engine.now():
            actor.counters["hung"] += 1
            self._lost(actor, f"hung: no answer for {timeout} s", None)
        else:
            actor.watched = True
            self.timers.at(deadline, lambda: self._watch(actor))

    def _lost(self, actor: Actor, reason: str, failure: UserFailure | None) -> None:
        if self.log is not None:
            self.log("lost", actor.name, actor.incarnation)
        actor.counters["lost"] += 1
        error: Exception
        if failure is not None:
            error = ActorStartError.of(failure, actor.handle.group.name, actor.name)
        else:
            error = WorkerLost(
                f"actor {actor.name!r} (incarnation {actor.incarnation}) was lost: {reason}. "
                "Policies on_failure='restart' and 'shrink' let a run go on."
            )
        lost = self._take_down(actor)
        if actor.status == "leaving":
            self._retire(actor)
        elif actor.policy.on_lost == "restart":
            self._restart(actor, error)
        elif actor.policy.on_lost == "shrink":
            self._shrink(actor, error)
        else:
            self._retire(actor)
            self.errors.append(error)
            self._announce_gone(actor)
        for request in lost:
            request.target.abandoned(request)

    def _take_down(self, actor: Actor) -> list[Request]:
        """Everything an actor still had is lost with it, and counted so."""
        lost = list(actor.requests.values())
        for request in lost:
            self._pop(request.id)
            self._drop(request, "worker_lost")
        self._settle_held(actor, "worker_lost")
        return lost

    def _drop(self, request: Request, reason: str) -> None:
        for ticket in request.tickets:
            if request.own:
                ticket.account.in_flight -= 1
                ticket.account.held += 1
            ticket.finish(reason)

    def _settle_held(self, actor: Actor, reason: str) -> None:
        for ticket in actor.held.values():
            ticket.finish(reason)
        actor.held.clear()

    # -- supervision ---------------------------------------------------------------------------

    def _restart(self, actor: Actor, error: Exception) -> None:
        now = self.engine.now()
        while actor.restarts and actor.restarts[0] < now - actor.policy.window:
            actor.restarts.popleft()
        if len(actor.restarts) >= actor.policy.max_restarts:
            self._retire(actor)
            error.add_note(
                f"given up on actor {actor.name!r}: restarted {len(actor.restarts)} times "
                f"within {actor.policy.window:g} s"
            )
            self.errors.append(error)
            self._announce_gone(actor)
            return
        pause = 0.0 if not actor.restarts else actor.policy.backoff * 2 ** (len(actor.restarts) - 1)
        actor.restarts.append(now)
        actor.counters["restarts"] += 1
        self.engine.kill(actor.name)
        actor.status = "waiting"
        self.timers.at(now + pause, lambda: self._revive(actor))

    def _revive(self, actor: Actor) -> None:
        if actor.status != "waiting":
            return  # removed meanwhile
        actor.incarnation += 1
        actor.status = "live"
        actor.parked.clear()
        self._start(actor)
        for target in list(actor.targets):
            target.actor_back()

    def _shrink(self, actor: Actor, error: Exception) -> None:
        self.counters["shrunk"] += 1
        self._retire(actor)
        self._announce_gone(actor)
        group = actor.handle.group.uid
        if not any(
            a.status in ("live", "waiting")
            for a in self.actors.values()
            if a.handle.group.uid == group
        ):
            error.add_note(f"no actor of group {actor.handle.group.name!r} is left")
            self.errors.append(error)

    def _announce_gone(self, actor: Actor) -> None:
        for target in list(actor.targets):
            target.actor_gone()

    @property
    def expects_events(self) -> bool:
        """Whether anything can still happen by itself."""
        return bool(self.by_request or self.timers)
