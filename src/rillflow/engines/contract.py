"""The whole contract between the scheduler and an engine.

An engine knows actors, requests, messages, references, events and a clock. It knows nothing of
flows and has no policy: who restarts, retries or waits is decided by the scheduler. The loop is

    engine.start(actor) ... engine.request(...) ... engine.tell(...)
    for event in engine.wait(timeout): scheduler.handle(event)

Messages and requests to one actor are handled in the order in which they were sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rillflow.errors import UserFailure
from rillflow.types import ActorInfo, Header, Placement, Provenance, Ref


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

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def incarnation(self) -> int:
        return self.info.incarnation


class Completed(NamedTuple):
    """A request was answered."""

    actor: str
    incarnation: int
    request: int
    header: Header
    payload: Ref | None


class Failed(NamedTuple):
    """User code raised: in a request, or in the handler of a message (`request` is None)."""

    actor: str
    incarnation: int
    request: int | None
    failure: UserFailure


class Lost(NamedTuple):
    """The actor is gone: its process died, or its constructor raised (`failure` says how)."""

    actor: str
    incarnation: int
    reason: str
    failure: UserFailure | None = None


Event = Completed | Failed | Lost


class Engine(ABC):
    """Brings actors to life and carries requests, messages and references between them."""

    name: str
    used = False
    """whether a run has begun on it; an engine serves one run"""
    counts_cpu = False
    """whether time spent in the driver's operators moves this engine's clock"""

    def open(self, seed: int) -> None:  # noqa: B027 - most engines need nothing here
        """Called once, before the first actor starts."""

    @abstractmethod
    def start(self, spec: ActorSpec) -> None:
        """Bring an actor to life; what is sent to it meanwhile is handled afterwards."""

    @abstractmethod
    def install(self, actor: str, pipeline: str, code: bytes) -> None:
        """Give an actor a source method and a chain of transforms, under a name."""

    @abstractmethod
    def request(
        self,
        actor: str,
        request: int,
        pipeline: str,
        seq: int,
        payload: Ref | None = None,
        provenance: Provenance = (),
    ) -> None:
        """Ask for the next item of a pipeline (made from `payload`, if there is one)."""

    @abstractmethod
    def tell(
        self, actor: str, method: str, payload: Ref, spread: bool, version: int | None
    ) -> None:
        """Call a method without an answer: with `payload`, or with its elements if `spread`."""

    @abstractmethod
    def call(self, actor: str, request: int, method: str, payload: Ref) -> None:
        """Call a method of an actor's host (`get_state`, `set_state`, `invoke`, `reached`)."""

    @abstractmethod
    def put(self, value: Any) -> Ref:
        """Serialise a value once, for any number of `tell`s."""

    def lend(self, actor: str, value: Any) -> Ref:
        """As `put`, for one request to one actor: without a copy, if it lives in this process."""
        return self.put(value)

    def give(self, actor: str, value: Any) -> Ref:
        """As `put`, for one message to one actor: a plain copy, if it lives in this process."""
        return self.put(value)

    @abstractmethod
    def kill(self, actor: str) -> None:
        """End an actor at once; nothing more is heard of this incarnation."""

    @abstractmethod
    def wait(self, timeout: float | None) -> list[Event]:
        """Events, in the order they happened; blocks until there is one or `timeout` has passed."""

    def flush(self) -> None:  # noqa: B027
        """Send what an engine has collected; called before the user's own code goes on."""

    @abstractmethod
    def now(self) -> float:
        """Seconds on this engine's clock; never goes back."""

    @abstractmethod
    def close(self) -> None:
        """End every actor and free everything; safe to call twice."""

    def spend(self, operator: str, wall: float, cpu: float, parts: int = 1) -> float:
        """An operator in the driver has worked for so long; returns what that is on this clock.

        `parts`: how many answers of actors the item that it worked on is made of; 0: it had none.
        """
        return wall

    @property
    def inline_seconds(self) -> float:
        """Seconds the driver has worked for actors that live in it."""
        return 0.0

    def inline_busy(self) -> dict[str, float]:
        """The same, by actor."""
        return {}

    def cut(self, seed: int, clock: float) -> None:  # noqa: B027
        """The run was saved, or restored, here: go on from this seed (and virtual time)."""

    def pids(self) -> dict[str, int]:
        """Process ids of the actors that have a process of their own."""
        return {}
