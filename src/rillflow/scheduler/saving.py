"""How steps save the items inside them, with their tickets, as plain data, and load them again.

A ticket that two places have stays one: every ticket is saved once and has a number. Items of one
delivery stay together: after a restore their source goes on when all of them are done with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rillflow.scheduler.envelope import Envelope
from rillflow.scheduler.ledger import Ticket
from rillflow.types import Versions, read

if TYPE_CHECKING:
    from rillflow.scheduler.scheduler import Scheduler

Row = dict[str, Any]


class Saver:
    """Numbers tickets while a state is taken."""

    def __init__(self, stable: Callable[[str], str]) -> None:
        self.rows: list[Row] = []
        """the tickets, by number"""
        self._stable = stable
        """the name of a channel, the same in another build of the flow"""
        self._numbers: dict[int, int] = {}
        self._kept: list[Ticket] = []

    def versions(self, versions: Mapping[str, int]) -> dict[str, int]:
        """Versions by the stable names of their channels."""
        return {self._stable(channel): version for channel, version in versions.items()}

    def ticket(self, ticket: Ticket) -> int:
        """The number of a ticket."""
        number = self._numbers.get(id(ticket))
        if number is None:
            number = self._numbers[id(ticket)] = len(self.rows)
            self._kept.append(ticket)  # the id of a freed ticket would be given out again
            versions = self.versions(ticket.versions)
            row: Row = {
                "source": [ticket.actor, ticket.incarnation, ticket.seq, versions],
                "account": [ticket.account.source, *ticket.account.path],
                "outcome": ticket.outcome,
                "pieces": ticket.pieces,
                "sent": ticket.sent,
            }
            self.rows.append(row)
            forks = ticket.forks
            row["forks"] = forks and {name: self.ticket(fork) for name, fork in forks.items()}
        return number

    def tickets(self, tickets: Sequence[Ticket]) -> list[int]:
        """The numbers of some tickets."""
        return [self.ticket(ticket) for ticket in tickets]

    def envelope(self, envelope: Envelope) -> Row:
        """An item: its value, read, and its tickets."""
        return {"value": read(envelope.value), "tickets": self.tickets(envelope.tickets)}

    def inside(self, state: Row) -> Row:
        """The state of a transform: its marks are tickets, the rest is not ours to look into."""
        pairs = [[read(value), self.tickets(marks)] for value, marks in state["inside"]]
        return {**state, "fn": apart(state["fn"]), "inside": pairs}


def apart(value: Any) -> Any:
    """A copy of the containers of a state: what is saved does not change while the run goes on.

    Arrays are not copied: whoever changes an array in place gives a copy of it.
    """
    kind = type(value)
    if kind is dict:
        return {key: apart(part) for key, part in value.items()}
    if kind is list or kind is tuple:
        return kind([apart(part) for part in value])
    return value


class Loader:
    """Gives tickets back by their numbers while a state is restored."""

    def __init__(
        self, scheduler: Scheduler, rows: Sequence[Row], live: Callable[[str], str]
    ) -> None:
        self._live = live
        self._tickets = [self._ticket(scheduler, row) for row in rows]
        for ticket, row in zip(self._tickets, rows, strict=True):
            forks = row["forks"]
            ticket.forks = forks and {name: self._tickets[i] for name, i in forks.items()}

    def tickets(self, numbers: Sequence[int]) -> tuple[Ticket, ...]:
        """Tickets by their numbers."""
        return tuple([self._tickets[number] for number in numbers])

    def envelope(self, row: Row) -> Envelope:
        """An item from its row."""
        return Envelope(row["value"], self.tickets(row["tickets"]))

    def inside(self, state: Row) -> Row:
        """The state of a transform, with tickets in the place of their numbers."""
        pairs = [(value, self.tickets(numbers)) for value, numbers in state["inside"]]
        return {**state, "inside": pairs}

    def versions(self, versions: Mapping[str, int]) -> Versions:
        """Versions by the names that their channels have in this build."""
        return Versions({self._live(channel): version for channel, version in versions.items()})

    def _ticket(self, scheduler: Scheduler, row: Row) -> Ticket:
        source, *path = row["account"]
        account = scheduler.ledger.account(source)
        for branch in path:
            account = account.child(branch)
        actor, incarnation, seq, versions = row["source"]
        ticket = Ticket(actor, incarnation, seq, self.versions(versions), account, row["sent"])
        ticket.outcome, ticket.pieces = row["outcome"], row["pieces"]
        return ticket
