"""Background operators: a learner, usually, that works between two queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rillflow.graph.handles import Background
from rillflow.scheduler.actor import Actor, Fields, Request
from rillflow.scheduler.background_snapshots import keep
from rillflow.scheduler.envelope import Blocked, Envelope
from rillflow.scheduler.queue import QueueState
from rillflow.types import Header, Ref

if TYPE_CHECKING:
    from rillflow.scheduler.scheduler import Scheduler


class BackgroundState:
    """A background operator: takes from one queue, puts on the other, as far as there is room.

    Items are handed over ahead of time, as many as there is room for results, so that it goes on
    working while the driver is busy with something else.
    """

    PIPELINE = "background"

    def __init__(
        self,
        scheduler: Scheduler,
        background: Background[Any, Any],
        actor: Actor,
        inqueue: QueueState,
        outqueue: QueueState,
    ) -> None:
        self.scheduler = scheduler
        self.operator = f"background({scheduler.program.group_names[background.actors.uid]})"
        self.stats = scheduler.stats_of(self.operator)
        self.actor = actor
        self.inqueue = inqueue
        self.outqueue = outqueue
        self.free: list[Request] = []
        """records of answered requests, to be used again"""
        self.failures = 0
        self.handed = 0
        """items that the operator has been given and not answered"""
        inqueue.readers.append(self)
        outqueue.fillers.append(self)

    def pump(self) -> None:
        """Hand over what there is room for."""
        if self.scheduler.fleet.paused:
            return
        out = self.outqueue
        while self.inqueue.items and self.actor.status == "live":
            handed = sum(filler.handed for filler in out.fillers)  # type: ignore[attr-defined]
            waiting = len(out.items) if out.queue.when_full == "wait" else 0
            if waiting + handed >= out.queue.capacity:
                return
            self.handed += 1
            self._send(self.inqueue.get())

    def _send(self, envelope: Envelope) -> None:
        fleet = self.scheduler.fleet
        payload = envelope.value
        if not isinstance(payload, Ref):
            payload = self.actor.port.pack(envelope.read())
        request = self.free.pop() if self.free else Request(self.actor, self)
        request.tickets = envelope.tickets
        fleet.request(request, self.PIPELINE, payload)

    def completed(self, request: Request, fields: Fields, payload: Ref | None) -> None:
        """A result: onto the out-queue, where room was kept for it."""
        self.handed -= 1
        self.failures = 0
        self.stats.items += 1
        self.stats.busy += Header._make(fields).wall
        self.stats.answers += 1
        tickets, request.tickets = request.tickets, ()
        self.free.append(request)
        self.outqueue.put(Envelope(payload, tickets, None, True), self.stats)
        if self.actor.policy.snapshot is not None:
            keep(self.scheduler.fleet, self.actor)
        self.pump()

    def dropped(self, request: Request, header: Header | None, reason: str) -> None:
        """The item is lost (and counted); make room."""
        self.handed -= 1
        for ticket in request.tickets:
            ticket.finish(reason)
        request.tickets = ()
        self.free.append(request)
        self.pump()

    def actor_back(self) -> None:
        """A new incarnation: go on."""
        self.pump()

    def actor_gone(self) -> None:
        """The error has been raised already; nothing more will come."""

    def status(self) -> Blocked:
        """Why the out-queue is empty."""
        if self.handed or self.actor.status == "waiting":
            return Blocked.WAITING
        return Blocked.STARVED if self.inqueue.items else self.inqueue.status()
