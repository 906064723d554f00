"""The ledger: what became of every request, counted when it is made and settled exactly once.

    produced = in_flight + held + trained + stored + delivered + consumed + dropped[reason]

`in_flight`: requested, not answered yet. `held`: answered, in a buffer, a queue or an operator (or
kept inside the actor by an operator there). `delivered`: reached the user. `consumed`: reached
the end of a branch that runs for its effects. Behind a split each branch has an account of its own.

Messages have lines of their own (see `mail.py`):

    sent = handled + under_way + lost[reason]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rillflow.scheduler.mail import MessageBalance
from rillflow.types import Source, Versions

_RANK = {"trained": 5, "stored": 4, "delivered": 3, "consumed": 0}
_LOST, _FILTERED = 2, 1
"""above `consumed`: an item that was lost behind a queue is not hidden by its copy passing on"""


@dataclass(frozen=True)
class Balance:
    """One line of the ledger: a source of items, as seen by one branch."""

    source: str
    branch: str
    produced: int
    in_flight: int
    held: int
    done: dict[str, int]
    """trained, stored, delivered, consumed"""
    dropped: dict[str, int]
    """by reason"""
    marked: dict[str, int] = field(default_factory=dict)
    """of all these: requests that somebody has marked, as `fresh` does what is stale"""

    @property
    def balanced(self) -> bool:
        """Whether every request is in exactly one state."""
        settled = sum(self.done.values()) + sum(self.dropped.values())
        return self.produced == self.in_flight + self.held + settled

    def __str__(self) -> str:
        parts = [f"{self.in_flight} in flight", f"{self.held} held"]
        parts += [f"{n} {what}" for what, n in self.done.items()]
        parts += [f"{n} dropped ({reason})" for reason, n in self.dropped.items()]
        where = f"{self.source} → {self.branch}" if self.branch else self.source
        marked = "".join(f", {n} marked {what}" for what, n in self.marked.items())
        return f"{where}: {self.produced} produced = " + " + ".join(parts) + marked


@dataclass
class Account:
    """Counts for one source on one branch; children are the branches behind a split."""

    source: str
    branch: str = ""
    produced: int = 0
    in_flight: int = 0
    held: int = 0
    done: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    marked: Counter[str] = field(default_factory=Counter)
    children: dict[str, Account] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    """the branches taken since the source"""

    def settle(self, outcome: str) -> None:
        """One held request has ended."""
        self.held -= 1
        if outcome in _RANK:
            self.done[outcome] += 1
        else:
            self.dropped[outcome] += 1

    def child(self, branch: str) -> Account:
        """The account of one branch behind a split."""
        if branch not in self.children:
            self.children[branch] = Account(self.source, branch, path=(*self.path, branch))
        return self.children[branch]

    def balances(self) -> list[Balance]:
        """One line per branch; what happened before the split counts in each of them."""
        if not self.children:
            return [
                Balance(
                    self.source,
                    self.branch,
                    self.produced,
                    self.in_flight,
                    self.held,
                    dict(self.done),
                    dict(self.dropped),
                    dict(self.marked),
                )
            ]
        lines = []
        for child in self.children.values():
            for line in child.balances():
                lines.append(
                    Balance(
                        line.source,
                        line.branch,
                        self.produced,
                        self.in_flight,
                        self.held + line.held,
                        dict(self.done + Counter(line.done)),
                        dict(self.dropped + Counter(line.dropped)),
                        dict(self.marked + Counter(line.marked)),
                    )
                )
        return lines

    def state(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return {
            "branch": self.branch,
            "produced": self.produced,
            "in_flight": self.in_flight,
            "held": self.held,
            "done": dict(self.done),
            "dropped": dict(self.dropped),
            "marked": dict(self.marked),
            "children": {name: child.state() for name, child in self.children.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the counts of a checkpoint."""
        self.branch, self.produced = state["branch"], state["produced"]
        self.in_flight, self.held = state["in_flight"], state["held"]
        self.done, self.dropped = Counter(state["done"]), Counter(state["dropped"])
        self.marked = Counter(state["marked"])
        for name, child in state["children"].items():
            self.child(name).restore(child)


def _rank(outcome: str) -> int:
    if outcome in _RANK:
        return _RANK[outcome]
    return _FILTERED if outcome.startswith("filtered") else _LOST


class Ticket:
    """One request's place in the ledger; each piece of the result has it until it is settled.

    Behind a split every branch has a ticket of its own (a fork) in the branch's account. The forks
    expect all pieces that are still on their way to the split.
    """

    __slots__ = (
        "account",
        "actor",
        "forks",
        "incarnation",
        "outcome",
        "pieces",
        "sent",
        "seq",
        "versions",
    )

    def __init__(
        self,
        actor: str,
        incarnation: int,
        seq: int,
        versions: Mapping[str, int],
        account: Account,
        sent: int = 0,
    ) -> None:
        self.actor = actor
        self.incarnation = incarnation
        self.seq = seq
        self.versions = versions
        self.account = account
        self.sent = sent
        """versioned messages sent to the actor when the request was issued"""
        self.pieces = 1
        self.outcome: str | None = None
        self.forks: dict[str, Ticket] | None = None

    @property
    def source(self) -> Source:
        """Which request this is, as users see it."""
        return Source(self.actor, self.incarnation, self.seq, Versions(self.versions))

    def mark(self, outcome: str) -> None:
        """Remember the best thing that happened to any piece."""
        if self.outcome is None or _rank(outcome) > _rank(self.outcome):
            self.outcome = outcome
        if self.forks is not None:
            for fork in self.forks.values():
                fork.mark(outcome)

    def add_pieces(self, extra: int) -> None:
        """The result of the request was divided further."""
        self.pieces += extra
        if self.forks is not None:
            for fork in self.forks.values():
                fork.add_pieces(extra)

    def finish(self, outcome: str) -> None:
        """One piece has ended; with the last the request is settled."""
        self.pieces -= 1
        if self.forks is not None:
            for fork in self.forks.values():
                fork.finish(outcome)
            return
        if self.outcome is not None:
            self.mark(outcome)
            outcome = self.outcome
        if self.pieces == 0:
            self.account.settle(outcome)
        else:
            self.outcome = outcome

    def fork(self, branch: str) -> Ticket:
        """The same request as seen by one branch behind a split."""
        if self.forks is None:
            self.forks = {}
            self.account.held -= 1  # from now on the branches account for it
        if branch not in self.forks:
            account = self.account.child(branch)
            account.held += 1
            ticket = self.forks[branch] = Ticket(
                self.actor, self.incarnation, self.seq, self.versions, account, self.sent
            )
            ticket.outcome, ticket.pieces = self.outcome, self.pieces
        return self.forks[branch]

    def passed_on(self) -> None:
        """One piece has gone through the split."""
        self.pieces -= 1


class Ledger:
    """All accounts of a run."""

    def __init__(self, messages: Callable[[], list[MessageBalance]] = list) -> None:
        self.accounts: dict[str, Account] = {}
        self._messages = messages

    def account(self, source: str) -> Account:
        """The account of a source of items."""
        return self.accounts.setdefault(source, Account(source))

    def balances(self) -> list[Balance]:
        """One line per source and branch."""
        return [line for account in self.accounts.values() for line in account.balances()]

    @property
    def messages(self) -> list[MessageBalance]:
        """One line per group of actors."""
        return self._messages()

    @property
    def balanced(self) -> bool:
        """Whether every request of every source, and every message, is in exactly one state."""
        items = all(line.balanced for line in self.balances())
        return items and all(line.balanced for line in self.messages)

    def __str__(self) -> str:
        told = [line for line in self.messages if line.sent]
        lines = [str(line) for line in (*self.balances(), *told)]
        return "\n".join(lines) or "nothing was requested"
