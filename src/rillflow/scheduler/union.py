"""Several streams into one: whichever is ready, or turns by credits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rillflow.errors import OperatorError, describe_exception
from rillflow.graph.node import Node
from rillflow.scheduler.envelope import Blocked, Envelope, Pulled
from rillflow.scheduler.step import Step

if TYPE_CHECKING:
    from rillflow.scheduler.saving import Loader, Saver
    from rillflow.scheduler.scheduler import Scheduler

_PASSED_OVER = (Blocked.CROWDED, Blocked.PARKED, Blocked.STARVED, Blocked.WARMING)


class UnionStep(Step):
    """Several streams into one: whichever is ready, or turns by credits.

    Credits: child i has been charged `used[i]`; the next turn goes to the child with the smallest
    `used[i] / weight[i]`, the first of equals. These turns are exact for any positive weights,
    without chance and without drift.
    """

    kind = "union"

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        self.children = pulls = self.upstream
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
        self.over = False
        """every branch that gives items has ended"""

    def pull(self) -> Pulled:
        """The next item of some child, or why there is none."""
        if self.ended and self.outputs <= self.ended:
            return self._end()
        first = self._first()
        pulled = self.children[first]()
        if type(pulled) is Envelope or pulled is Blocked.PROGRESSED:
            return self._serve(first, pulled)
        if pulled is Blocked.WAITING and not self.as_ready:
            return pulled  # a slow child whose turn has come is waited for
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
                    return self._end()
            elif pulled is Blocked.WARMING:
                self.warming.add(child)
            elif pulled is Blocked.WAITING and not self.as_ready:
                break  # a slow child whose turn has come is waited for
        return self._why_nothing(reasons)

    def _end(self) -> Blocked:
        """Nobody will pull the other branches again, and nobody may wait for items inside them."""
        if not self.over:
            self.over = True
            self.detach()
        return Blocked.ENDED

    def _why_nothing(self, reasons: list[Blocked]) -> Blocked:
        """One answer for all children."""
        if Blocked.ENDED in reasons:
            return Blocked.PROGRESSED  # another child may wait for what has just ended
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
        if cost:
            self._charge(child, self.used[child] + cost)
        else:
            self._yield_turn(child)  # what costs nothing must not be served alone, for ever
        self.stats.items += 1
        if child in self.outputs:
            return pulled
        pulled.finish("consumed")
        return Blocked.PROGRESSED

    def _cost(self, envelope: Envelope) -> float:
        """What an item costs in the user's units: a finite number of 0 or more."""
        try:
            cost = float(self.units(envelope.read()))
            if not 0.0 <= cost < math.inf:
                raise ValueError(f"`units` must give a finite number of 0 or more; got {cost!r}")
        except BaseException as error:
            envelope.finish(f"error in {self.name}")
            if isinstance(error, KeyboardInterrupt):
                raise
            failure = describe_exception(error)
            raise OperatorError.build(failure, self.name, None, error) from error
        return cost

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

    def get_state(self, save: Saver) -> Any:
        return {
            "used": list(self.used),
            "last_served": list(self.last_served),
            "turns": self.turns,
            "ended": sorted(self.ended),
            "warming": sorted(self.warming),
        }

    def set_state(self, state: Any, load: Loader) -> None:
        self.last_served = [int(i) for i in state["last_served"]]
        for child, used in enumerate(state["used"]):
            self._charge(child, used)
        self.turns = state["turns"]
        self.ended = {int(i) for i in state["ended"]}
        self.warming = {int(i) for i in state["warming"]}
