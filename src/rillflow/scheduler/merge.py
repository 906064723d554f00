"""One stream into several (`split`), several into one (`union`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rillflow.errors import OperatorError, describe_exception
from rillflow.graph.node import Node
from rillflow.scheduler.envelope import Blocked, Envelope, Pulled
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.transform import Puller

if TYPE_CHECKING:
    from rillflow.scheduler.scheduler import Scheduler


class SplitStep:
    """Gives every item to each port; a port may run at most `buffer` items ahead of the others."""

    def __init__(self, scheduler: Scheduler, node: Node, name: str, pull: Puller) -> None:
        self.name = name
        self.stats = scheduler.stats_of(name)
        self.upstream = pull
        self.bound: int = node["buffer"]
        self.buffers: list[deque[Envelope]] = [deque() for _ in range(node["n"])]
        self.left: set[int] = set()
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
        pulled = self.upstream()
        if type(pulled) is not Envelope:
            self.ended = pulled is Blocked.ENDED
            return pulled
        self.stats.items += 1
        if pulled.hold is not None:
            pulled.hold.retain(len(self.buffers) - len(self.left) - 1)
        forks = [
            tuple(ticket.fork(f"{self.name}[{index}]") for ticket in pulled.tickets)
            for index in range(len(self.buffers))
        ]
        for ticket in pulled.tickets:
            ticket.passed_on()
        for index, (buffer, tickets) in enumerate(zip(self.buffers, forks, strict=True)):
            if index in self.left:
                Envelope(None, tickets).finish("reader ended")
            else:
                buffer.append(Envelope(pulled.value, tickets, pulled.hold, pulled.lazy))
        return own.popleft()

    def detach_port(self, port: int) -> bool:
        """The reader of a port wants no more; True: it was the last reader."""
        self.left.add(port)
        for envelope in self.buffers[port]:
            envelope.finish("reader ended")
        self.buffers[port].clear()
        return len(self.left) == len(self.buffers)

    def cut(self) -> None:
        """Items in the buffers no longer keep their source waiting."""
        for buffer in self.buffers:
            for envelope in buffer:
                envelope.release()

    def held(self) -> list[tuple[Ticket, ...]]:
        """Tickets of the items in the buffers, for the audit."""
        return [envelope.tickets for buffer in self.buffers for envelope in buffer]

    @property
    def depth(self) -> int:
        """Items waiting in all ports."""
        return sum(map(len, self.buffers))


_PASSED_OVER = (Blocked.PARKED, Blocked.STARVED, Blocked.WARMING)


class UnionStep:
    """Several streams into one: whichever is ready, or turns by credits.

    Credits: child i has been charged `used[i]`; the next turn goes to the child with the smallest
    `used[i] / weight[i]`, the first of equals. That is exact for any positive weights, without
    chance and without drift.
    """

    def __init__(self, scheduler: Scheduler, node: Node, name: str, pulls: list[Puller]) -> None:
        self.name = name
        self.stats = scheduler.stats_of(name)
        self.children = pulls
        self.as_ready: bool = node["mode"] == "async"
        self.outputs = frozenset(node["outputs"])
        self.weights: tuple[float, ...] = node["weights"]
        self.units = node["units"]
        self.used = [0.0] * len(pulls)
        self.levels = [0.0] * len(pulls)
        """used / weight of each child"""
        self.last_served = [-1] * len(pulls)
        self.turns = 0
        self.ended: set[int] = set()
        self.warming: set[int] = set()

    def pull(self) -> Pulled:
        """The next item of some child, or why there is none."""
        if self.outputs <= self.ended:
            return Blocked.ENDED
        first = self._first()
        pulled = self.children[first]()
        if type(pulled) is Envelope or pulled is Blocked.PROGRESSED:
            return self._serve(first, pulled)
        if pulled is Blocked.WAITING and not self.as_ready:
            return pulled  # its turn has come; a slow child is waited for
        return self._others(first, pulled)

    def _others(self, first: int, pulled: Pulled) -> Pulled:
        """The child whose turn it is has nothing: what the others have, if they may go before."""
        reasons: list[Blocked] = []
        for child in self._order():
            if child != first:
                pulled = self.children[child]()
                if type(pulled) is Envelope or pulled is Blocked.PROGRESSED:
                    return self._serve(child, pulled)
            assert isinstance(pulled, Blocked)
            reasons.append(pulled)
            if pulled is Blocked.ENDED:
                self.ended.add(child)
                if self.outputs <= self.ended:
                    return Blocked.ENDED
            elif pulled is Blocked.WARMING:
                self.warming.add(child)
            elif pulled is Blocked.WAITING and not self.as_ready:
                break  # its turn has come; a slow child is waited for
        return self._why_nothing(reasons)

    def _why_nothing(self, reasons: list[Blocked]) -> Blocked:
        """One answer for all children."""
        if Blocked.ENDED in reasons:
            return Blocked.PROGRESSED  # the end of one may be what another was waiting for
        if Blocked.WAITING in reasons:
            return Blocked.WAITING
        return next((reason for reason in _PASSED_OVER if reason in reasons), Blocked.ENDED)

    def _first(self) -> int:
        """The child whose turn it is; the first of `_order`."""
        turns: Sequence[float] = self.last_served if self.as_ready else self.levels
        if not self.ended:
            return turns.index(min(turns))
        alive = [i for i in range(len(self.children)) if i not in self.ended]
        return min(alive, key=turns.__getitem__)

    def _order(self) -> list[int]:
        alive = [i for i in range(len(self.children)) if i not in self.ended]
        if len(alive) == 1:
            return alive
        if self.as_ready:
            alive.sort(key=self.last_served.__getitem__)
        else:  # sorting keeps the order of equals
            alive.sort(key=self.levels.__getitem__)
        return alive

    def _charge(self, child: int, used: float) -> None:
        self.used[child] = used
        self.levels[child] = used / self.weights[child]

    def _serve(self, child: int, pulled: Pulled) -> Pulled:
        self.turns += 1
        self.last_served[child] = self.turns
        if child in self.warming:
            self.warming.discard(child)
            self._join(child)
        if type(pulled) is not Envelope:
            # a turn was used without an output; in units it cost nothing, but the others go next
            if self.units is None:
                self._charge(child, self.used[child] + 1.0)
            else:
                self._yield_turn(child)
            return pulled
        cost = 1.0 if self.units is None else self._cost(pulled)
        self._charge(child, self.used[child] + cost)
        self.stats.items += 1
        if child in self.outputs:
            return pulled
        pulled.finish("consumed")
        return Blocked.PROGRESSED

    def _cost(self, envelope: Envelope) -> float:
        try:
            return float(self.units(envelope.read()))
        except Exception as error:
            envelope.finish(f"error in {self.name}")
            failure = describe_exception(error)
            raise OperatorError.build(failure, self.name, None, error) from error

    def _join(self, child: int) -> None:
        """No credit accrued while the child warmed up: it starts level with the others."""
        others = self._levels_of_others(child)
        if others:
            level = min(others) * self.weights[child]
            self._charge(child, max(self.used[child], level))

    def _yield_turn(self, child: int) -> None:
        """Level with the next in line, plus a hair: who rejects everything starves nobody."""
        others = self._levels_of_others(child)
        if others:
            level = min(others) * self.weights[child]
            self._charge(child, max(self.used[child], level + 1e-9 * max(1.0, level)))

    def _levels_of_others(self, child: int) -> list[float]:
        passed_over = self.ended | self.warming | {child}
        return [level for i, level in enumerate(self.levels) if i not in passed_over]

    def held(self) -> list[tuple[Ticket, ...]]:
        """Nothing: it passes items through."""
        return []

    def cut(self) -> None:
        """Nothing is on its way through."""

    def get_state(self) -> dict[str, object]:
        """Credits and order, for a checkpoint."""
        return {
            "used": list(self.used),
            "last_served": list(self.last_served),
            "turns": self.turns,
            "ended": sorted(self.ended),
            "warming": sorted(self.warming),
        }

    def set_state(self, state: dict[str, list[float]]) -> None:
        """Restore credits and order."""
        self.last_served = [int(i) for i in state["last_served"]]
        for child, used in enumerate(state["used"]):
            self._charge(child, used)
        self.turns = state["turns"]  # type: ignore[assignment]
        self.ended = {int(i) for i in state["ended"]}
        self.warming = {int(i) for i in state["warming"]}
