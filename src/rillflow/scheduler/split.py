"""One stream into several: every item to each port."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from rillflow.graph.node import Node
from rillflow.scheduler.envelope import Blocked, Envelope, Pulled
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.step import Step

if TYPE_CHECKING:
    from rillflow.scheduler.saving import Loader, Saver
    from rillflow.scheduler.scheduler import Scheduler


class SplitStep(Step):
    """Gives every item to each port; a port may run at most `buffer` items ahead of the others."""

    kind = "split"

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        (self.pull_upstream,) = self.upstream
        self.bound: int = node["buffer"]
        self.buffers: list[deque[Envelope]] = [deque() for _ in range(node["n"])]
        self.gone: set[int] = set()
        """ports whose reader has ended"""
        self.ended = False

    def pull_port(self, port: int) -> Pulled:
        """The next item for one port."""
        own = self.buffers[port]
        if own:
            return own.popleft()
        if self.ended:
            return Blocked.ENDED
        if any(len(buffer) >= self.bound for buffer in self.buffers):
            return Blocked.STARVED  # a sibling lags: it is served first
        pulled = self.pull_upstream()
        if type(pulled) is not Envelope:
            self.ended = pulled is Blocked.ENDED
            return pulled
        self.stats.items += 1
        if pulled.hold is not None:
            pulled.hold.retain(len(self.buffers) - len(self.gone) - 1)
        forks = [
            tuple(ticket.fork(f"{self.name}[{index}]") for ticket in pulled.tickets)
            for index in range(len(self.buffers))
        ]
        for ticket in pulled.tickets:
            ticket.passed_on()
        for index, (buffer, tickets) in enumerate(zip(self.buffers, forks, strict=True)):
            if index in self.gone:
                Envelope(None, tickets).finish("reader ended")
            else:
                buffer.append(Envelope(pulled.value, tickets, pulled.hold, pulled.lazy))
        return own.popleft()

    def detach_port(self, port: int) -> None:
        """The reader of a port wants no more; with the last of them the split is done."""
        if port in self.gone:
            return
        self.gone.add(port)
        for envelope in self.buffers[port]:
            envelope.finish("reader ended")
        self.buffers[port].clear()
        if len(self.gone) == len(self.buffers):
            self.detach()

    def cut(self) -> None:
        for buffer in self.buffers:
            for envelope in buffer:
                envelope.release()

    def release(self) -> None:
        for buffer in self.buffers:
            buffer.clear()

    def held(self) -> list[tuple[Ticket, ...]]:
        return [envelope.tickets for buffer in self.buffers for envelope in buffer]

    @property
    def depth(self) -> int:
        return sum(map(len, self.buffers))

    def get_state(self, save: Saver) -> Any:
        return {
            "ended": self.ended,
            "left": sorted(self.gone),
            "buffers": [[save.envelope(e) for e in buffer] for buffer in self.buffers],
        }

    def set_state(self, state: Any, load: Loader) -> None:
        self.ended, self.gone = state["ended"], set(state["left"])
        for buffer, rows in zip(self.buffers, state["buffers"], strict=True):
            buffer.extend(load.envelope(row) for row in rows)


class PortStep(Step):
    """One port of a split, as whoever reads it sees it."""

    kind = "port"

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        self.node = node
        split = scheduler.steps[node.inputs[0]]
        assert isinstance(split, SplitStep)
        self.split, self.index = split, node["index"]

    def pull(self) -> Pulled:
        return self.split.pull_port(self.index)

    def detach(self) -> None:
        self.split.detach_port(self.index)
