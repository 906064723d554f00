"""Messages to actors: in order, and of versioned ones only the newest."""

from __future__ import annotations

from collections.abc import Callable

from rillflow.engines.contract import Engine
from rillflow.scheduler.actor import Actor, Message
from rillflow.scheduler.deferred import Deferred


class Outbox:
    """What was said to actors and has not left yet.

    A message with a version replaces those of its kind before it. It leaves with the next request
    or message to the actor, or before the driver waits for others: of the weights of many updates
    that follow each other the last are enough.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.behind: dict[str, Actor] = {}
        """actors that have not been sent everything"""
        self.log: Callable[..., None] | None = None
        """told what is sent, if somebody wants to know"""

    def put(self, actor: Actor, message: Message, kind: str | None) -> None:
        """Send a message, at once or, if it has a version, in time; `kind` is what it replaces."""
        if kind is None:
            actor.plain = actor.messages
            self.catch_up(actor)
            self.send(actor, message)
            return
        actor.unsent.pop(kind, None)  # it is the newest: behind those of other kinds
        actor.unsent[kind] = message
        self.behind[actor.name] = actor

    def catch_up(self, actor: Actor) -> None:
        """Whatever has not left to this actor leaves now."""
        if actor.unsent:
            unsent, actor.unsent = actor.unsent, {}
            self.behind.pop(actor.name, None)
            for message in unsent.values():
                self.send(actor, message)

    def catch_up_all(self) -> None:
        """The same for every actor."""
        for actor in list(self.behind.values()):
            self.catch_up(actor)

    def forget(self, actor: Actor) -> None:
        """It begins anew, with the newest of everything."""
        actor.unsent.clear()
        self.behind.pop(actor.name, None)

    def send(self, actor: Actor, message: Message) -> None:
        """Hand a message to the engine."""
        method, payload, spread, version = message
        if self.log is not None:
            self.log("tell", actor.name, method, version)
        if isinstance(payload, Deferred):
            payload = payload.sendable()
        self.engine.tell(actor.name, method, payload, spread, version)
