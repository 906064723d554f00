"""What an operator may ask for by a second parameter `ctx`: provenance, messages, counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from rillflow.graph.handles import ActorHandle, Actors
from rillflow.types import ActorInfo, Provenance, Ref

T = TypeVar("T")
U = TypeVar("U")


class Context(Protocol):
    """The item's provenance and the ways to act beyond the item. Never a global."""

    operator: str
    """name of the operator in the program"""
    seed: int
    """seed of the run"""
    actor: Any
    """the actor that the operator runs in; None in the driver"""
    info: ActorInfo | None
    """name, index, incarnation and seed of the operator's actor; None in the driver"""

    @property
    def provenance(self) -> Provenance:
        """Which requests made this item, and with which weights."""
        ...

    @property
    def sources(self) -> tuple[ActorHandle, ...]:
        """The actors that made this item, each once."""
        ...

    @property
    def lag(self) -> int:
        """By how many versions the oldest weights behind this item are older than the newest."""
        ...

    def send(
        self,
        to: ActorHandle | Actors | Iterable[ActorHandle],
        method: str,
        *args: Any,
        version: int | None = None,
        key: str | None = None,
    ) -> None:
        """Call `method(*args)` on actors, without waiting; handled before any later request.

        With a `version` the message belongs to a channel, named by `key` or else by the method: the
        version is stamped on later items, the same version is not sent to the same actor twice, and
        a newer message takes the place of one that has not left. Actors that restart or join are
        sent the newest message of each channel and of each `key`.

        An operator that sends messages without a version waits, before its next item, while an
        actor of the group that it sends to has a full mailbox.
        """
        ...

    def put(self, value: Any) -> Ref:
        """Serialise a value once, to send it to many actors."""
        ...

    def defer(self, value: Any) -> Ref:
        """As `put`, for a value that never changes: serialised only when it is really sent.

        A message with a version that a newer one has replaced is never serialised.
        """
        ...

    def shared(self, key: str, make: Callable[[], T]) -> T:
        """What several operators of the driver share in one run, such as a learner; made once.

        A shared object with `get_state` and `set_state` is part of the run's state.
        """
        ...

    def on_metrics(self, listener: Callable[[str, int, dict[str, Any]], None]) -> None:
        """Call `listener(actor, seq, metrics)` for metrics that travel with the actors' answers."""
        ...

    def count(self, counter: str, n: int = 1) -> None:
        """Add to a counter of this operator, shown in `run.stats()`."""
        ...

    def mark(self, outcome: str) -> None:
        """Tell the ledger what became of this item: 'trained' or 'stored'."""
        ...


class Operator(Generic[T, U]):
    """Base class for operators with state; any other callable works as well.

    A subclass defines `__call__(self, item)` or `__call__(self, item, ctx)`. Set `takes_ref` to be
    given an item unread, as a `Ref` that can be forwarded without a copy. An operator in the driver
    that has a method `on_start(ctx)` is called once before the first request is made, for instance
    to send the first weights. Where the types of the operator and of what comes to it disagree, its
    `way_in`, if it has one, is part of the message: one sentence on where its items come from.
    """

    takes_ref: bool = False

    def get_state(self) -> dict[str, Any]:
        """State to save; by default the attributes that are plain data."""
        return {k: v for k, v in vars(self).items() if _plain(v)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        vars(self).update(state)


def _plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_plain(v) for v in value)
    if isinstance(value, dict):
        return all(isinstance(k, str) and _plain(v) for k, v in value.items())
    return (
        value is None
        or isinstance(value, bool | int | float | str | bytes)
        or hasattr(value, "__array__")
    )
