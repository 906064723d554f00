"""Bounded queues between branches, and the background operators that work between two of them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from rillflow.graph.handles import Background, Queue
from rillflow.scheduler.actor import Actor, Request
from rillflow.scheduler.envelope import Blocked, Envelope, Pulled
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.stats import NodeStats
from rillflow.scheduler.transform import Puller
from rillflow.types import Header, Ref

if TYPE_CHECKING:
    from rillflow.scheduler.fleet import Fleet
    from rillflow.scheduler.scheduler import Scheduler


class QueueState:
    """The items of one queue, and who fills and empties it."""

    def __init__(self, queue: Queue[Any]) -> None:
        self.queue = queue
        self.items: deque[Envelope] = deque()
        self.producers: set[str] = set()
        self.filled_by: BackgroundState | None = None
        self.read_by: BackgroundState | None = None

    @property
    def full(self) -> bool:
        """Whether the next put has to wait, or to drop."""
        return len(self.items) >= self.queue.capacity

    def put(self, envelope: Envelope, stats: NodeStats) -> None:
        """Add an item; when full, drop as the queue's policy says, and count it."""
        if self.full:
            assert self.queue.when_full != "wait", "whoever fills a queue looks for room first"
            stats.counters["dropped"] += 1
            if self.queue.when_full == "drop_newest":
                envelope.finish(f"queue full: {self.queue.name}")
                return
            self.items.popleft().finish(f"queue full: {self.queue.name}")
        self.items.append(envelope)
        if self.read_by is not None:
            self.read_by.pump()

    def get(self) -> Envelope:
        """Take the oldest item; the room is used at once by a background operator that waits."""
        envelope = self.items.popleft()
        if self.filled_by is not None:
            self.filled_by.pump()
        return envelope

    def status(self) -> Blocked:
        """Why it is empty."""
        if self.filled_by is not None and (status := self.filled_by.status()) is not Blocked.ENDED:
            return status
        return Blocked.STARVED if self.producers else Blocked.ENDED


class _Clock:
    """What an operator's own work takes, without the requests that it makes."""

    def __init__(self, fleet: Fleet, stats: NodeStats) -> None:
        self.fleet = fleet
        self.now = fleet.engine.now
        self.stats = stats

    def begin(self) -> float:
        """When it would have begun if no request had taken any time yet."""
        return self.now() - self.fleet.seconds

    def end(self, began: float) -> None:
        """It is done."""
        self.stats.busy += self.now() - self.fleet.seconds - began
        self.stats.calls += 1


class EnqueueStep:
    """Puts a copy of each item on the queue and passes the item on."""

    def __init__(self, scheduler: Scheduler, state: QueueState, name: str, pull: Puller) -> None:
        self.name = name
        self.stats = scheduler.stats_of(name)
        self.clock = _Clock(scheduler.fleet, self.stats)
        self.state = state
        self.upstream = pull
        self.pending: Envelope | None = None
        """pulled, but the queue was filled meanwhile by something upstream"""
        state.producers.add(name)

    def pull(self) -> Pulled:
        """One item onto the queue, if there is room."""
        state = self.state
        if state.full and state.queue.when_full == "wait":
            return Blocked.PARKED
        pulled = self.pending or self.upstream()
        self.pending = None
        if type(pulled) is not Envelope:
            if pulled is Blocked.ENDED:
                state.producers.discard(self.name)
            return pulled
        if state.full and state.queue.when_full == "wait":
            self.pending = pulled
            return Blocked.PARKED
        began = self.clock.begin()
        self.stats.items += 1
        for ticket in pulled.tickets:
            ticket.add_pieces(1)
        state.put(Envelope(pulled.value, pulled.tickets, None, pulled.lazy), self.stats)
        self.clock.end(began)
        return pulled

    def leave(self) -> None:
        """Nobody pulls this branch any more: for the queue it has ended."""
        self.state.producers.discard(self.name)

    def held(self) -> list[tuple[Ticket, ...]]:
        """Tickets of what waits for room; the queue has the rest."""
        return [] if self.pending is None else [self.pending.tickets]

    def cut(self) -> None:
        """What waits for room no longer keeps its source waiting."""
        if self.pending is not None:
            self.pending.release()


class DequeueStep:
    """Takes items from the queue."""

    def __init__(self, scheduler: Scheduler, state: QueueState, name: str) -> None:
        self.name = name
        self.stats = scheduler.stats_of(name)
        self.clock = _Clock(scheduler.fleet, self.stats)
        self.state = state

    def pull(self) -> Pulled:
        """The oldest item, or why there is none."""
        if not self.state.items:
            return self.state.status()
        began = self.clock.begin()
        self.stats.items += 1
        envelope = self.state.get()
        self.clock.end(began)
        return envelope

    def held(self) -> list[tuple[Ticket, ...]]:
        """Nothing: the queue holds them."""
        return []

    def cut(self) -> None:
        """Nothing is on its way through."""


class BackgroundState:
    """A background operator: takes from one queue, puts on the other, as far as there is room.

    Items are handed over ahead of time, as many as there is room for results, so that it goes on
    working while the driver is busy with something else.
    """

    PIPELINE = "background"

    def __init__(
        self,
        scheduler: Scheduler,
        background: Background,
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
        self.handed: deque[Envelope] = deque()
        inqueue.read_by = self
        outqueue.filled_by = self

    def pump(self) -> None:
        """Hand over what there is room for."""
        if self.scheduler.fleet.paused:
            return
        out = self.outqueue
        while self.inqueue.items and self.actor.status == "live":
            waiting = len(out.items) if out.queue.when_full == "wait" else 0
            if waiting + len(self.handed) >= out.queue.capacity:
                return
            envelope = self.inqueue.get()
            self.handed.append(envelope)
            self._send(envelope)

    def _send(self, envelope: Envelope) -> None:
        fleet = self.scheduler.fleet
        payload = envelope.value
        if not isinstance(payload, Ref):
            value, before = envelope.read(), fleet.engine.now()
            payload = fleet.engine.lend(self.actor.name, value)
            fleet.seconds += fleet.engine.now() - before
        fleet.request(self.actor, self, self.PIPELINE, envelope.tickets, payload)

    def completed(self, request: Request, header: Header, payload: Ref | None) -> None:
        """A result: onto the out-queue, where room was kept for it."""
        self.handed.popleft()
        self.stats.items += 1
        self.stats.busy += header.wall
        self.stats.answered(request.took, header.wall, 0)
        self.outqueue.put(Envelope(payload, request.tickets, None, True), self.stats)
        self.pump()

    def abandoned(self, request: Request) -> None:
        """The item is lost (and counted); make room."""
        if self.handed:
            self.handed.popleft()
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
