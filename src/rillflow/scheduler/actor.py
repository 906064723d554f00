"""One actor as the scheduler sees it, and one request on its way to it.

States of an actor: `live` (started, perhaps still constructing), `waiting` (lost, to be restarted
after a pause), `leaving` (removed by the user, finishing its requests), `gone`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rillflow.engines.contract import Port
from rillflow.errors import OperatorError
from rillflow.graph.handles import ActorHandle
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.mail import Mail
from rillflow.types import FailurePolicy, Header, Ref

Fields = tuple[Any, ...]
"""of a `Header`, in its order"""
Status = Literal["live", "waiting", "leaving", "gone"]


class Target(Protocol):
    """Whoever made a request: a shard of a gather, a background operator, a call."""

    operator: str
    failures: int
    """failures in a row, for policies that give up"""

    def completed(self, request: Request, fields: Fields, payload: Ref | None) -> None:
        """The request was answered; these are the fields of the answer's header."""
        ...

    def dropped(self, request: Request, header: Header | None, reason: str) -> None:
        """There is no item: user code raised (the header says what became of whose items), or the
        actor is lost with everything it had (then there is no header)."""
        ...

    def actor_back(self) -> None:
        """A new incarnation of the actor is ready for requests."""
        ...

    def actor_gone(self) -> None:
        """The actor will not come back."""
        ...


class Request:
    """One request on its way; whoever makes many uses the same record again."""

    __slots__ = (
        "actor",
        "id",
        "issued",
        "label",
        "new_ticket",
        "seq",
        "target",
        "tickets",
        "told",
    )

    def __init__(self, actor: Actor, target: Target, label: str = "") -> None:
        self.actor = actor
        self.target = target
        self.label = label
        """what is asked, if the request is a call"""
        self.id = 0
        self.seq = -1
        self.tickets: tuple[Ticket, ...] = ()
        self.new_ticket = False
        """the request has a ticket made for it (False: it carries the tickets of an item)"""
        self.issued = 0.0
        self.told = 0
        """messages sent to the actor before this request"""


@dataclass(eq=False, slots=True)
class Actor:
    """One actor of the run."""

    name: str
    handle: ActorHandle
    group: str
    """the uid of the actor's group"""
    policy: FailurePolicy
    code: bytes
    mail: Mail
    port: Port = field(init=False)
    """the driver's end of the actor's present incarnation"""
    inline: bool = False
    """the actor lives in the driver itself"""
    incarnation: int = 0
    status: Status = "live"
    lost: bool = False
    """the actor is gone because of an error that was raised: a restored run starts it anew"""
    started: bool = False
    """the constructor has returned"""
    begun: float = 0.0
    """when the present incarnation was started, on the engine's clock"""
    seq: int = 0
    requests: dict[int, Request] = field(default_factory=dict)
    """requests and calls that the actor has not answered, oldest first"""
    inside: dict[int, tuple[Ticket, ...]] = field(default_factory=dict)
    """by sequence number: tickets of items that an operator keeps inside the actor"""
    pipelines: dict[str, bytes] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    parked: list[Callable[[], None]] = field(default_factory=list)
    """called after the next message: each asks a shard again that answered `not ready`"""
    restarts: deque[float] = field(default_factory=deque)
    last_heard: float = 0.0
    watched: bool = False
    """a timer is set for the actor's oldest request"""
    answered: bool = False
    """the present incarnation has answered a request"""
    proven: bool = False
    """some incarnation has answered a request"""
    slowest: float = 0.0
    """seconds that the slowest answer took, from when the actor could turn to it"""
    kept: Ref | None = None
    """the newest snapshot of its state, from which a next incarnation goes on"""
    kept_at: float = 0.0
    """when the snapshot was asked for, on the engine's clock"""
    busy: float = 0.0
    counters: Counter[str] = field(default_factory=Counter)


class Answer:
    """The target of a call."""

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.failures = 0
        self.done = False
        self.lost = False
        self.error: OperatorError | None = None
        self.payload: Ref | None = None

    def completed(self, request: Request, fields: Fields, payload: Ref | None) -> None:
        self.done, self.payload = True, payload

    def dropped(self, request: Request, header: Header | None, reason: str) -> None:
        self.done = self.lost = True

    def failed(self, error: OperatorError) -> None:
        """The actor lives, but what it was asked for raised."""
        self.done, self.error = True, error

    def actor_back(self) -> None:
        pass

    def actor_gone(self) -> None:
        pass
