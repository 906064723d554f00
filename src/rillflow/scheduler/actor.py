"""One actor as the scheduler sees it, and one request on its way to it.

States of an actor: `live` (started, perhaps still constructing), `waiting` (lost, to be restarted
after a pause), `leaving` (removed by the user, finishing its requests), `gone`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rillflow.graph.handles import ActorHandle
from rillflow.scheduler.ledger import Ticket
from rillflow.types import FailurePolicy, Header, Ref

Message = tuple[str, Ref, bool, int | None]
"""method, payload, whether the payload's elements are the arguments, version"""


class Target(Protocol):
    """Whoever made a request: a shard of a gather, a background operator, a call."""

    operator: str

    def completed(self, request: Request, header: Header, payload: Ref | None) -> None:
        """The answer."""
        ...

    def abandoned(self, request: Request) -> None:
        """There will be no answer; the tickets are settled already."""
        ...

    def actor_back(self) -> None:
        """A new incarnation of the actor is ready for requests."""
        ...

    def actor_gone(self) -> None:
        """The actor will not come back."""
        ...


@dataclass(slots=True)
class Request:
    """One request on its way."""

    id: int
    actor: Actor
    target: Target
    seq: int
    tickets: tuple[Ticket, ...]
    issued: float
    own: bool
    """its ticket was made for it (False: it carries the tickets of an item on its way)"""
    messages: int
    """messages sent to the actor before this request"""
    label: str = ""
    took: float = 0.0
    """seconds until the answer came"""


@dataclass
class Actor:
    """One actor of the run."""

    name: str
    handle: ActorHandle
    policy: FailurePolicy
    code: bytes
    inline: bool = False
    """it lives in the driver itself"""
    incarnation: int = 0
    status: Literal["live", "waiting", "leaving", "gone"] = "live"
    seq: int = 0
    messages: int = 0
    """how many were sent to it"""
    plain: int = 0
    """how many there were with the last one that has no version"""
    handled: int = 0
    """how many it had handled when it last answered"""
    versions_sent: int = 0
    last_version: dict[str, int] = field(default_factory=dict)
    sticky: dict[str, Message] = field(default_factory=dict)
    """the newest message of each kind, for a new incarnation"""
    unsent: dict[str, Message] = field(default_factory=dict)
    """the newest versioned message of each kind that has not left yet"""
    requests: dict[int, Request] = field(default_factory=dict)
    held: dict[int, Ticket] = field(default_factory=dict)
    """tickets of items kept inside the actor by an operator there"""
    pipelines: dict[str, bytes] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    parked: list[Callable[[], None]] = field(default_factory=list)
    """asked again after the next message: shards that answered `not ready`"""
    restarts: deque[float] = field(default_factory=deque)
    failures_in_a_row: int = 0
    last_answer: float = 0.0
    watched: bool = False
    """a timer is set for its oldest request"""
    busy: float = 0.0
    counters: Counter[str] = field(default_factory=Counter)


class Answer:
    """The target of a call."""

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.done = False
        self.lost = False
        self.payload: Ref | None = None

    def completed(self, request: Request, header: Header, payload: Ref | None) -> None:
        self.done, self.payload = True, payload

    def abandoned(self, request: Request) -> None:
        self.done = self.lost = True

    def actor_back(self) -> None:
        pass

    def actor_gone(self) -> None:
        pass
