"""Bounded queues between branches."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from rillflow.graph.handles import Queue
from rillflow.graph.node import Node
from rillflow.scheduler.envelope import Blocked, Envelope, Pulled
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.stats import NodeStats
from rillflow.scheduler.step import Step

if TYPE_CHECKING:
    from rillflow.scheduler.saving import Loader, Saver
    from rillflow.scheduler.scheduler import Scheduler


class Pump(Protocol):
    """A background operator at one end of a queue."""

    def pump(self) -> None:
        """There may be something to do, or room for it."""
        ...

    def status(self) -> Blocked:
        """Why the operator gives nothing."""
        ...


class QueueState:
    """The items of one queue, and who fills and empties it."""

    def __init__(self, queue: Queue[Any], name: str) -> None:
        self.queue = queue
        self.name = name
        """the queue's name in this program, where a second queue of a name has a number"""
        self.items: deque[Envelope] = deque()
        self.producers: set[str] = set()
        self.fillers: list[Pump] = []
        self.readers: list[Pump] = []
        self.takers: set[str] = set()
        """steps that take items from the queue"""
        self.abandoned = False
        """nobody will ever take an item from the queue: what is put on it ends there"""

    @property
    def full(self) -> bool:
        """Whether the next put has to wait, or to drop."""
        return len(self.items) >= self.queue.capacity

    def put(self, envelope: Envelope, stats: NodeStats) -> None:
        """Add an item; when full, drop as the queue's policy says, and count it."""
        if self.abandoned:
            envelope.finish("reader ended")
            return
        if self.full:
            assert self.queue.when_full != "wait", "whoever fills a queue looks for room first"
            stats.counters["dropped"] += 1
            if self.queue.when_full == "drop_newest":
                envelope.finish(f"queue full: {self.queue.name}")
                return
            self.items.popleft().finish(f"queue full: {self.queue.name}")
        self.items.append(envelope)
        for reader in self.readers:
            reader.pump()

    def get(self) -> Envelope:
        """Take the oldest item; the room is used at once by a background operator that waits."""
        envelope = self.items.popleft()
        for filler in self.fillers:
            filler.pump()
        return envelope

    def status(self) -> Blocked:
        """Why the queue is empty: the best news that any of its fillers has."""
        reasons = [filler.status() for filler in self.fillers]
        if self.producers:
            reasons.append(Blocked.STARVED)
        for reason in reasons:
            if reason is Blocked.WAITING:
                return reason
        return next((r for r in reasons if r is not Blocked.ENDED), Blocked.ENDED)

    def leave(self, taker: str) -> None:
        """One of those who take items wants no more."""
        self.takers.discard(taker)
        if not self.takers and not self.readers:
            self.abandoned = True
            while self.items:
                self.get().finish("reader ended")

    def held(self) -> list[tuple[Ticket, ...]]:
        """Tickets of the items in the queue."""
        return [envelope.tickets for envelope in self.items]

    def get_state(self, save: Saver) -> Any:
        """The items of the queue, and who fills it."""
        return {
            "items": [save.envelope(envelope) for envelope in self.items],
            "producers": sorted(self.producers),
            "abandoned": self.abandoned,
        }

    def set_state(self, state: Any, load: Loader) -> None:
        """Go on from what `get_state` gave."""
        self.items.extend(load.envelope(row) for row in state["items"])
        self.producers = set(state["producers"])
        self.abandoned = state["abandoned"]


class _QueueStep(Step):
    """What both ends of a queue share."""

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        self.state = scheduler.queues[node["queue"].uid]
        self.capacity = self.state.queue.capacity

    @property
    def depth(self) -> int:
        return len(self.state.items)


class EnqueueStep(_QueueStep):
    """Puts a copy of each item on the queue and passes the item on."""

    kind = "enqueue"

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        (self.pull_upstream,) = self.upstream
        self.pending: Envelope | None = None
        """pulled, but the queue was filled meanwhile by something upstream"""
        self.state.producers.add(name)

    def pull(self) -> Pulled:
        """One item onto the queue, if there is room."""
        state = self.state
        if state.full and state.queue.when_full == "wait":
            return Blocked.PARKED
        pulled = self.pending or self.pull_upstream()
        self.pending = None
        if type(pulled) is not Envelope:
            if pulled is Blocked.ENDED:
                state.producers.discard(self.name)
            return pulled
        if state.full and state.queue.when_full == "wait":
            self.pending = pulled
            return Blocked.PARKED
        began, fleet = self.scheduler.fleet.engine.now(), self.scheduler.fleet
        self.stats.items += 1
        for ticket in pulled.tickets:
            ticket.add_pieces(1)
        state.put(Envelope(pulled.value, pulled.tickets, None, pulled.lazy), self.stats)
        self.stats.busy += fleet.engine.now() - began
        self.stats.calls += 1
        return pulled

    def detach(self) -> None:
        """Nobody pulls this branch any more: for the queue it has ended."""
        self.state.producers.discard(self.name)
        if self.pending is not None:
            self.pending.finish("reader ended")
            self.pending = None
        super().detach()

    def held(self) -> list[tuple[Ticket, ...]]:
        return [] if self.pending is None else [self.pending.tickets]

    def cut(self) -> None:
        if self.pending is not None:
            self.pending.release()

    def release(self) -> None:
        self.pending = None

    def get_state(self, save: Saver) -> Any:
        return {"pending": None if self.pending is None else save.envelope(self.pending)}

    def set_state(self, state: Any, load: Loader) -> None:
        row = state["pending"]
        self.pending = None if row is None else load.envelope(row)


class DequeueStep(_QueueStep):
    """Takes items from the queue."""

    kind = "dequeue"

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        self.state.takers.add(name)

    def detach(self) -> None:
        self.state.leave(self.name)

    def pull(self) -> Pulled:
        """The oldest item, or why there is none."""
        state = self.state
        if not state.items:
            return state.status()
        self.stats.items += 1
        return state.get()
