"""The whole contract between the scheduler and an engine.

An engine knows actors, orders, references, events and a clock. It knows nothing of flows and has
no policy: who restarts, retries or waits is decided by the scheduler. The loop is

    port = engine.start(spec) ... port.send(order, payload) ... engine.flush()
    for event in engine.wait(timeout): scheduler.handle(event)

Orders to one actor are handled one by one, in the order in which they were sent. An order is a
tuple, its payload a reference:

    ("install", pipeline, code)                    learn a source method and a chain of transforms;
                                                   without code: it is the payload
    ("request", number, pipeline, seq, sources)    make an item, from the payload if there is one
    ("tell", method, spread, channel, version)     call a method without an answer: with the
                                                   payload, or with its elements if `spread`
    ("call", number, method)                       answer a question: `invoke`, `get_state`,
                                                   `set_state`, `reached`

Whatever user code does, a request and a call are answered by one `Completed`, and a message is
counted in the next answer or in a `Told`: `engines/host.py` sees to that for every engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rillflow.errors import UserFailure
from rillflow.types import ActorInfo, Header, Placement, Ref

Order = tuple[Any, ...]


@dataclass(frozen=True)
class ActorSpec:
    """All an engine needs to bring one incarnation of an actor to life."""

    info: ActorInfo
    placement: Placement
    code: bytes
    """cloudpickle of (factory, args, kwargs)"""
    handle: Any
    """the ActorHandle, as operators see it"""
    resources: Mapping[str, float] = field(default_factory=dict)
    mailbox: int = 64
    """messages that may be under way to the actor, which reports after a quarter of them"""

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def incarnation(self) -> int:
        return self.info.incarnation


class Started(NamedTuple):
    """The actor's constructor has returned."""

    actor: str
    incarnation: int


class Completed(NamedTuple):
    """A request or a call was answered, or failed: then `header.failure` says how."""

    actor: str
    incarnation: int
    request: int
    fields: tuple[Any, ...]
    """of the header, in its order: a plain tuple is taken apart in a third of the time"""
    payload: Ref | None

    @property
    def header(self) -> Header:
        """The small part of the answer, by name."""
        return Header._make(self.fields)


class Told(NamedTuple):
    """The actor has handled so many messages in all; some of them may have raised."""

    actor: str
    incarnation: int
    handled: int
    failures: tuple[UserFailure, ...] = ()


class Lost(NamedTuple):
    """The actor is gone: its process died, or its constructor raised (`failure` says how)."""

    actor: str
    incarnation: int
    reason: str
    failure: UserFailure | None = None


Event = Started | Completed | Told | Lost


class Port(ABC):
    """The driver's end of one incarnation of an actor."""

    @abstractmethod
    def send(self, order: Order, payload: Ref | None = None) -> None:
        """Have an order handled after all orders before it; orders leave at the next `flush`."""

    @abstractmethod
    def pack(self, value: Any) -> Ref:
        """A value for this actor alone: serialised, or, for an actor in this process, copied unless
        nobody can change the value any more."""

    @abstractmethod
    def kill(self) -> None:
        """End the actor at once; nothing more is heard of this incarnation."""

    def retire(self) -> None:
        """Let the actor handle all that was sent, then close itself and end."""
        self.kill()


class Engine(ABC):
    """Brings actors to life and carries orders, answers and references between them."""

    name: str
    used = False
    """whether a run has begun on this engine, which serves one run"""
    inline_seconds: float = 0.0
    """seconds the driver has worked for actors that live in the driver"""
    actors_in_driver = False
    """whether every actor works on the driver's thread, where Ctrl-C arrives"""
    counts_cpu = False
    """whether time spent in the driver's operators moves this engine's clock"""

    def open(self, seed: int) -> None:  # noqa: B027 - most engines need nothing here
        """Called once, before the first actor starts."""

    @abstractmethod
    def start(self, spec: ActorSpec) -> Port:
        """Bring an actor to life; orders that are sent to it meanwhile are handled afterwards."""

    @abstractmethod
    def put(self, value: Any) -> Ref:
        """Serialise a value once, to send it to any number of actors."""

    @abstractmethod
    def wait(self, timeout: float | None) -> list[Event]:
        """Events, in the order they happened; blocks until there is one or `timeout` has passed.

        Everything that was sent leaves first. With no timeout an empty list means that nothing
        will ever happen, or that somebody called `wake`.
        """

    def peek(self) -> list[Event]:
        """Events that have arrived; the driver neither waits nor works for its actors meanwhile."""
        return []

    def flush(self) -> None:  # noqa: B027
        """Send what an engine has collected."""

    def wake(self) -> None:  # noqa: B027 - an engine without threads never sleeps
        """From any thread: let `wait` return."""

    def enter(self) -> None:  # noqa: B027
        """The driver begins to work for this run, after it may have worked for another."""

    def leave(self) -> None:  # noqa: B027
        """The driver's work for this run is done; that for a run around this one may go on."""

    @abstractmethod
    def now(self) -> float:
        """Seconds on this engine's clock; never goes back."""

    @abstractmethod
    def close(self) -> None:
        """End every actor and free everything; safe to call twice."""

    def spend(self, operator: str, wall: float, cpu: float, parts: int = 1) -> float:
        """An operator in the driver has worked for so long; returns what that is on this clock.

        `parts`: of how many answers of actors the operator's item is made; 0: there was no item.
        """
        return wall

    def inline_busy(self) -> dict[str, float]:
        """Seconds the driver has worked for actors that live in the driver, by actor."""
        return {}

    def cut(self, seed: int, clock: float) -> None:  # noqa: B027
        """The run was saved, or restored, here: go on from this seed (and virtual time)."""

    def pids(self) -> dict[str, int]:
        """Process ids of the actors that have a process of their own."""
        return {}
