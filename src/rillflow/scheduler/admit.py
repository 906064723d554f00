"""`admit`: requests are made only for items that may still be used while they are fresh.

With versions counted from the first, a request is made only while

    accepted + under way < (max_lag + version + 1) * batch

*Accepted* items have passed this operator, *under way* are those requested and neither accepted nor
lost. A consumer that makes one version of each `batch` items, in the order in which they were
requested, then never uses an item that is more than `max_lag` versions old: item number i is used
for version i // batch, and was requested when the version was at least i // batch - max_lag. In the
order in which items happen to be completed the same holds on average only: one that takes long may
be overtaken by any number of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from rillflow.errors import BuildError
from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.scheduler.envelope import Blocked, Envelope, Pulled
from rillflow.scheduler.fresh import gather_behind, require_lag
from rillflow.scheduler.gather import Gather
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.step import Step

if TYPE_CHECKING:
    from rillflow.scheduler.saving import Loader, Saver
    from rillflow.scheduler.scheduler import Scheduler

Order = Literal["submission", "completion"]


def admit_node(
    input_: Node, max_lag: int, batch: int, order: Order, channel: str | None, name: str | None
) -> Node:
    """The node behind `flow.admit(...)`."""
    require_lag("admit", max_lag)
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise BuildError(f"admit: batch is a number of items, at least 1; got {batch!r}.")
    if order not in ("submission", "completion"):
        raise BuildError(
            "admit: items go on in the order of their requests or as they are completed: "
            f"order='submission' or 'completion'; got {order!r}."
        )
    options = {"max_lag": max_lag, "batch": batch, "order": order, "channel": channel}
    gives = {"gives": input_.options["gives"]} if "gives" in input_.options else {}
    label = f"admit(max_lag={max_lag}, batch={batch}, {order})"
    return Node(kind="admit", label=label, inputs=(input_,), name=name, options=options | gives)


class AdmitStep(Step):
    """The gate of a gather: counts what was requested and what came of it."""

    kind = "admit"

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        (self.pull_upstream,) = self.upstream
        self.max_lag: int = node["max_lag"]
        self.batch: int = node["batch"]
        self.in_order = node["order"] == "submission"
        self.channel: str | None = node["channel"]
        source = gather_behind(node)
        assert source is not None, "checked before the start"
        gather = scheduler.steps[source]
        assert isinstance(gather, Gather)
        self.gather = gather
        gather.gate = self
        self.requested = 0
        """requests so far, each with its number; those that brought nothing included"""
        self.refunds = 0
        """requests that brought nothing"""
        self.numbers: dict[int, tuple[Ticket, int]] = {}
        """by id: tickets of requests that nobody has accepted, and their numbers"""
        self.next = 0
        """the number of the next item, in the order of submission"""
        self.lost: set[int] = set()
        """numbers of requests that brought nothing, and whose turn has not come"""
        self.aside: dict[int, list[Envelope]] = {}
        """by number: items whose turn has not come"""
        self.first: int | None = None
        """the version that the first request was made with"""
        self.seen = -1
        """the version at the last look"""

    @classmethod
    def problems(cls, program: Program, node: Node) -> Iterator[str]:
        source, name = gather_behind(node), program.names[node]
        if source is None:
            yield (
                f"{name!r} holds back the requests of a gather, so it must stand behind one. Put "
                "it there, before anything is merged, split or queued."
            )
        elif program.shards(source.inputs[0])[0].source.kind == "route":
            yield (
                f"{name!r} holds back requests to sources, but {program.names[source]!r} gathers "
                "from helpers. Put it behind the gather of the sources themselves."
            )
        elif any(
            other is not node and other.kind == "admit" and gather_behind(other) is source
            for other in program.nodes
        ):
            yield f"a gather has one gate, but {name!r} is not the only `admit` behind it."

    # -- the gate of the gather ----------------------------------------------------------------

    def version(self) -> int:
        """New versions since the first request."""
        newest = self._newest()
        return 0 if self.first is None else newest - self.first

    def _newest(self) -> int:
        office, newest = self.scheduler.fleet.office, 0
        groups = {shard.actor.group for shard in self.gather.shards}
        for (group, channel), message in office.newest.items():
            wanted = self.channel is None or channel == self.channel
            if group in groups and wanted and message.version is not None:
                newest = max(newest, message.version)
        return newest

    @property
    def limit(self) -> int:
        """Requests that may have been made by now, without those that brought nothing."""
        return (self.max_lag + self.version() + 1) * self.batch

    def may_issue(self) -> bool:
        if self.requested - self.refunds < self.limit:
            return True
        self.stats.counters["held_back"] += 1
        return False

    def issued(self, ticket: Ticket) -> None:
        if self.first is None:
            self.first = self._newest()
        self.numbers[id(ticket)] = (ticket, self.requested)
        self.requested += 1

    def refunded(self, ticket: Ticket) -> None:
        found = self.numbers.pop(id(ticket), None)
        if found is not None:
            self.refunds += 1
            self.lost.add(found[1])

    # -- a step --------------------------------------------------------------------------------

    def pull(self) -> Pulled:
        version = self._newest()
        if version != self.seen or self.lost:  # what was held back may be asked for now
            self.seen = version
            self.gather.rearm_all()
        if not self.in_order:
            pulled = self.pull_upstream()
            if type(pulled) is Envelope:
                self._accept(pulled)
                self.lost.clear()
            return pulled
        return self._pull_in_order()

    def _pull_in_order(self) -> Pulled:
        pulled = self.pull_upstream()
        if type(pulled) is Envelope:
            number = self._number(pulled)
            self.aside.setdefault(number, []).append(pulled)
        while self.next in self.lost:
            self.lost.discard(self.next)
            self.next += 1
        if self.next - 1 in self.aside:  # a further piece of the item before
            return self._give(self.next - 1)
        if self.next in self.aside:
            self.next += 1
            return self._give(self.next - 1)
        if type(pulled) is not Envelope and not (pulled is Blocked.ENDED and self.aside):
            return pulled
        if pulled is Blocked.ENDED:  # what was to come before will not come
            self.next = min(self.aside)
        return Blocked.PROGRESSED

    def _give(self, number: int) -> Envelope:
        waiting = self.aside[number]
        envelope = waiting.pop(0)
        if not waiting:
            del self.aside[number]
        self._accept(envelope)
        return envelope

    def _number(self, envelope: Envelope) -> int:
        numbers = [self.numbers[id(t)][1] for t in envelope.tickets if id(t) in self.numbers]
        return min(numbers, default=self.next - 1)

    def _accept(self, envelope: Envelope) -> None:
        self.stats.items += 1
        for ticket in envelope.tickets:
            self.numbers.pop(id(ticket), None)

    def why(self) -> str:
        made = self.requested - self.refunds
        return f"{self.name!r}: {made} of {self.limit} requests made at version {self.version()}"

    def held(self) -> list[tuple[Ticket, ...]]:
        return [envelope.tickets for waiting in self.aside.values() for envelope in waiting]

    @property
    def depth(self) -> int:
        return sum(map(len, self.aside.values()))

    def detach(self) -> None:
        super().detach()
        aside, self.aside = self.aside, {}
        for waiting in aside.values():
            for envelope in waiting:
                envelope.finish("reader ended")

    def cut(self) -> None:
        for waiting in self.aside.values():
            for envelope in waiting:
                envelope.release()

    def release(self) -> None:
        self.aside.clear()
        self.numbers.clear()

    def get_state(self, save: Saver) -> Any:
        return {
            "requested": self.requested,
            "refunds": self.refunds,
            "next": self.next,
            "lost": sorted(self.lost),
            "first": self.first,
            "numbers": [[save.ticket(ticket), number] for ticket, number in self.numbers.values()],
            "aside": [
                [number, [save.envelope(envelope) for envelope in waiting]]
                for number, waiting in self.aside.items()
            ],
        }

    def set_state(self, state: Any, load: Loader) -> None:
        self.requested, self.refunds = state["requested"], state["refunds"]
        self.next, self.lost, self.first = state["next"], set(state["lost"]), state["first"]
        self.aside = {
            number: [load.envelope(row) for row in rows] for number, rows in state["aside"]
        }
        for saved, number in state["numbers"]:
            (ticket,) = load.tickets([saved])
            self.numbers[id(ticket)] = (ticket, number)
