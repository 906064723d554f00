"""`fresh`: how old an item may be, in versions of the weights that it was made with.

The lag of an item is the newest version on its source's channel less the version that the source
had when it was asked; of several channels and sources the largest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from rillflow.errors import BuildError, OperatorError, describe_exception
from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.scheduler.envelope import Blocked, Envelope, Pulled
from rillflow.scheduler.gather import Gather
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.step import Step

if TYPE_CHECKING:
    from rillflow.scheduler.saving import Loader, Saver
    from rillflow.scheduler.scheduler import Scheduler

OnStale = Literal["drop", "wait", "mark"]


def fresh_node(
    input_: Node,
    max_lag: int,
    on_stale: OnStale,
    size: Callable[[Any], float] | None,
    channel: str | None,
    name: str | None,
) -> Node:
    """The node behind `flow.fresh(...)`."""
    require_lag("fresh", max_lag)
    if on_stale not in ("drop", "wait", "mark"):
        raise BuildError(
            f"fresh: what is stale is dropped, waited for or marked: on_stale='drop', 'wait' or "
            f"'mark'; got {on_stale!r}."
        )
    options = {"max_lag": max_lag, "on_stale": on_stale, "size": size, "channel": channel}
    gives = {"gives": input_.options["gives"]} if "gives" in input_.options else {}
    label = f"fresh(max_lag={max_lag}, {on_stale})"
    return Node(kind="fresh", label=label, inputs=(input_,), name=name, options=options | gives)


def require_lag(operator: str, max_lag: object) -> None:
    """Refuse a lag below zero."""
    if isinstance(max_lag, bool) or not isinstance(max_lag, int) or max_lag < 0:
        raise BuildError(
            f"{operator}: max_lag is a number of versions, 0 or more; got {max_lag!r}."
        )


def gather_behind(node: Node) -> Node | None:
    """The gather that a node reads, through operators that pass one item for one."""
    while node.inputs and not node.parallel:
        node = node.inputs[0]
        if node.kind == "gather":
            return node
        if node.kind not in ("transform", "fresh", "admit"):
            return None
    return None


class FreshStep(Step):
    """Lets items pass that are not too old; drops, marks or waits for the others."""

    kind = "fresh"

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        (self.pull_upstream,) = self.upstream
        self.max_lag: int = node["max_lag"]
        self.on_stale: OnStale = node["on_stale"]
        self.size = node["size"]
        self.channel: str | None = node["channel"]
        self.aside: list[Envelope] = []
        """with `wait`: items that have to wait for an older one"""
        source = gather_behind(node)
        found = None if source is None else scheduler.steps[source]
        self.gather = found if isinstance(found, Gather) else None

    @classmethod
    def problems(cls, program: Program, node: Node) -> Iterator[str]:
        if node["on_stale"] == "wait" and gather_behind(node) is None:
            yield (
                f"{program.names[node]!r} waits for requests that are still out, so it must stand "
                "behind a gather. Put it there, before anything is merged, split or queued."
            )

    def pull(self) -> Pulled:
        if self.on_stale == "wait":
            return self._pull_in_turn()
        pulled = self.pull_upstream()
        if type(pulled) is not Envelope:
            return pulled
        lag = self.scheduler.lag_of(pulled.tickets, self.channel)
        self._count(pulled, "stale" if lag > self.max_lag else "fresh")
        if lag <= self.max_lag or self.on_stale == "mark":
            if lag > self.max_lag:
                self._mark(pulled)
            return pulled
        pulled.finish("stale")
        return Blocked.PROGRESSED

    # -- wait ----------------------------------------------------------------------------------

    def _pull_in_turn(self) -> Pulled:
        """The oldest item, unless the one after it would let a request that is out grow stale."""
        pulled = self.pull_upstream()
        if type(pulled) is Envelope:
            self.aside.append(pulled)
        if not self.aside:
            return pulled
        lags = [self.scheduler.lag_of(envelope.tickets, self.channel) for envelope in self.aside]
        oldest = max(range(len(lags)), key=lambda i: (lags[i], -i))
        if lags[oldest] < self.max_lag and self._lag_of_requests() >= self.max_lag:
            return Blocked.PROGRESSED if type(pulled) is Envelope else Blocked.WAITING
        envelope = self.aside.pop(oldest)
        late = lags[oldest] > self.max_lag
        self._count(envelope, "stale" if late else "fresh")
        if late:
            self._mark(envelope)
        return envelope

    def _lag_of_requests(self) -> int:
        """How old the oldest item is by now of those that were asked for and are not here yet."""
        if self.gather is None:
            return 0
        out = [envelope.tickets for _, envelope in self.gather.waiting()]
        for shard in self.gather.shards:
            requests = shard.actor.requests.values()
            out += [request.tickets for request in requests if request.target is shard]
        return max([self.scheduler.lag_of(tickets, self.channel) for tickets in out], default=0)

    # -- counting ------------------------------------------------------------------------------

    def _mark(self, envelope: Envelope) -> None:
        for ticket in envelope.tickets:
            ticket.account.marked["stale"] += 1

    def _count(self, envelope: Envelope, what: str) -> None:
        """How many there were, and how long: to drop what is old is to drop what took long."""
        counters = self.stats.counters
        counters[what] += 1
        counters[f"{what}_length"] += self._length(envelope)

    def _length(self, envelope: Envelope) -> int:
        if self.size is None and envelope.lazy:
            return 1  # nobody asked for lengths: the item stays unread
        try:
            value = envelope.read()
            if self.size is not None:
                return int(self.size(value))
            return len(value) if hasattr(value, "__len__") else 1
        except BaseException as error:
            envelope.finish(f"error in {self.name}")
            if isinstance(error, KeyboardInterrupt):
                raise
            raise OperatorError.build(describe_exception(error), self.name, None, error) from error

    # -- a step --------------------------------------------------------------------------------

    def held(self) -> list[tuple[Ticket, ...]]:
        return [envelope.tickets for envelope in self.aside]

    @property
    def depth(self) -> int:
        return len(self.aside)

    def detach(self) -> None:
        super().detach()
        aside, self.aside = self.aside, []
        for envelope in aside:
            envelope.finish("reader ended")

    def cut(self) -> None:
        for envelope in self.aside:
            envelope.release()

    def release(self) -> None:
        self.aside.clear()

    def get_state(self, save: Saver) -> Any:
        return {"aside": [save.envelope(envelope) for envelope in self.aside]}

    def set_state(self, state: Any, load: Loader) -> None:
        self.aside = [load.envelope(row) for row in state["aside"]]
