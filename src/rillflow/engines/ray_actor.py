"""The driver's end of one Ray actor: orders on their way to it, answers in their order.

Nothing here imports `ray`.
"""

from __future__ import annotations

import pickle
from collections import deque
from typing import TYPE_CHECKING, Any

from rillflow.engines.contract import ActorSpec, Event, Lost, Order, Port
from rillflow.engines.packing import PackedRef, pack
from rillflow.engines.ray_host import SMALL, encode
from rillflow.types import Ref

if TYPE_CHECKING:
    from rillflow.engines.ray import RayEngine


class RayActor(Port):
    """One incarnation of an actor, as the driver sees it."""

    def __init__(self, engine: RayEngine, spec: ActorSpec, handle: Any) -> None:
        self.name, self.incarnation, self.resources = spec.name, spec.incarnation, spec.resources
        self.engine = engine
        self.handle = handle
        self._work = handle.work.options(num_returns=2)
        self.watch = handle.watch.options(concurrency_group="watch")
        self.pid = handle.pid.options(concurrency_group="watch").remote()
        self.outbox: list[tuple[Order, Any]] = []
        """orders that have not left yet, with their payloads"""
        self.lossy = False
        """whether an order in the outbox points to data that may be lost on the way"""
        self.unanswered: deque[int] = deque()
        """requests that have not been answered, in the order they were made"""
        self.early: dict[int, list[Event]] = {}

    def send(self, order: Order, payload: Ref | None = None) -> None:
        if order[0] in ("request", "call"):
            if self.lossy:
                self.deliver()
            self.outbox.append((order, payload))
            meta, sent = self._collected()
            header, item = self._work.remote(meta, *sent)
            self.unanswered.append(order[1])
            self.engine.when_done(header, self, self.engine.answered, order[1], item)
            return
        if not self.outbox:
            self.engine.unsent.append(self)
        if order[0] == "install" and len(order[2]) > SMALL:
            payload = self.engine.put_once(order[2])
            order = ("install", order[1], None)
        self.outbox.append((order, payload))
        self.lossy |= getattr(payload, "remote", False)

    def pack(self, value: Any) -> Ref:
        return self.engine.put(value)

    def retire(self) -> None:
        self.deliver()
        self.engine.let_go(self)

    def kill(self) -> None:
        self.engine.end(self)

    def deliver(self) -> None:
        """Send orders without a request."""
        lossy, alive = self.lossy, self.engine.actors.get(self.name) is self
        if not self.outbox or not alive:
            return
        messages = sum(order[0] == "tell" for order, _ in self.outbox)
        meta, sent = self._collected()
        told = self.handle.deliver.options(num_returns=int(lossy)).remote(meta, *sent)
        if lossy:  # data that is lost must not vanish without a word
            self.engine.when_done(told, self, self.engine.delivered, messages)

    def _collected(self) -> tuple[bytes, list[Any]]:
        """The orders that leave now, and their payloads."""
        outbox, self.outbox, self.lossy = self.outbox, [], False
        meta = pickle.dumps([(order, payload is not None) for order, payload in outbox], 5)
        return meta, [sendable(payload) for _, payload in outbox if payload is not None]

    def in_turn(self, request: int, events: list[Event]) -> list[Event]:
        """Answers in the order of their requests; Ray may report two the other way round."""
        if any(isinstance(event, Lost) for event in events):
            return events
        self.early[request] = events
        ready: list[Event] = []
        while self.unanswered and self.unanswered[0] in self.early:
            ready += self.early.pop(self.unanswered.popleft())
        return ready


def sendable(payload: Ref) -> Any:
    """A payload as an argument; Ray puts the value in the place of an ObjectRef."""
    if hasattr(payload, "sent"):
        return payload.sent
    return encode(payload if isinstance(payload, PackedRef) else pack(payload.get()))
