"""What travels between the operators of a driver: an item, where it came from, who waits for it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Protocol

from rillflow.scheduler.ledger import Ticket
from rillflow.types import Ref, read


class Blocked(enum.Enum):
    """Why an operator has no item now. Never visible to users."""

    PROGRESSED = "an input was consumed without an output; ask again"
    WAITING = "a request of its own is on its way; an event will come"
    STARVED = "needs another branch to move first"
    PARKED = "a queue downstream is full"
    CROWDED = "an actor that it sends messages to has not handled enough of them"
    WARMING = "its actors said: not ready before my next message"
    ENDED = "no more items, ever"


class Holding(Protocol):
    """A delivery that is open until everything downstream is done with its pieces."""

    def retain(self, extra: int) -> None:
        """Further pieces came from this delivery."""
        ...

    def release(self) -> None:
        """One piece is done with."""
        ...


class Hold:
    """Counts the pieces of one delivery still being worked on; at zero the delivery is done."""

    __slots__ = ("done", "pieces")

    def __init__(self, done: Callable[[], None]) -> None:
        self.pieces = 1
        self.done = done

    def retain(self, extra: int) -> None:
        """Further pieces came from this delivery."""
        self.pieces += extra

    def release(self) -> None:
        """One piece is done with."""
        self.pieces -= 1
        if self.pieces == 0:
            self.done()


class Envelope:
    """An item with its provenance (tickets) and the hold on the request that made it."""

    __slots__ = ("hold", "lazy", "tickets", "value")

    def __init__(
        self,
        value: Any,
        tickets: tuple[Ticket, ...] = (),
        hold: Holding | None = None,
        lazy: bool = False,
    ) -> None:
        self.value = value
        self.tickets = tickets
        self.hold = hold
        self.lazy = lazy
        """the value is, or contains, references that nobody has read yet"""

    def read(self) -> Any:
        """The value itself; references are fetched on first reading."""
        if self.lazy:
            value = self.value
            self.value = value.get() if isinstance(value, Ref) else read(value)
            self.lazy = False
        return self.value

    def release(self) -> None:
        """Everything downstream is done with this item."""
        hold = self.hold
        if hold is not None:
            self.hold = None
            hold.release()

    def finish(self, outcome: str) -> None:
        """The item's life ends here; the ledger counts what became of it."""
        for ticket in self.tickets:
            ticket.finish(outcome)
        self.release()


Pulled = Envelope | Blocked
