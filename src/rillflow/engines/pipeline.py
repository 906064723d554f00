"""A shard's work inside its actor: the source method, and the transforms behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rillflow.engines.host_context import HostContext
from rillflow.engines.transforms import Outs, Transform


class Failed(Exception):  # noqa: N818 - carries another exception to the edge of the host
    """User code raised; `operator` says where, `lost` which requests' items went with it."""

    def __init__(self, operator: str, error: BaseException, lost: Sequence[int]) -> None:
        super().__init__(operator)
        self.operator = operator
        self.error = error
        self.lost = lost


@dataclass
class Pipeline:
    """A source method and the transforms behind it, for one shard."""

    method: Callable[..., Any]
    steps: list[tuple[str, Transform]]
    takes_ref: bool
    context: HostContext | None

    def __post_init__(self) -> None:
        dividing = [i for i, (_, step) in enumerate(self.steps) if step.divides]
        holding = [i for i, (_, step) in enumerate(self.steps) if step.holds]
        # only what was divided, by a transform that holds items or before one, can be in two places
        self._may_part = bool(dividing and holding) and dividing[0] <= holding[-1]
        self.may_end = any(step.ends for _, step in self.steps)

    def ended(self) -> int:
        """How many transforms there are up to the last that takes no more; 0: none has ended."""
        return max([i for i, (_, step) in enumerate(self.steps, 1) if step.ended], default=0)

    def chain(self, made: Any, seq: int, times: list[float], before: float) -> Outs:
        """What the source has made through all transforms; `times` is told what each takes."""
        items: Outs = [(made, (seq,))]
        for operator, step in self.steps:
            now = time.perf_counter()
            times.append(now - before)
            before = now
            items = _through(operator, step, items)
        times.append(time.perf_counter() - before)
        return items

    def flush(self, over: int) -> Outs:
        """The source, or so many transforms behind it, have ended: what is left in each of the
        others goes through those behind it."""
        items: Outs = []
        for operator, step in self.steps[over:]:
            items = _through(operator, step, items)
            items += step.flush()
        return items

    def inside(self) -> set[int]:
        """Requests of which something is inside a transform."""
        holding = [step for _, step in self.steps if step.holds]
        return {seq for step in holding for _, marks in step.inside() for seq in marks}

    def kept(self, items: Outs, dropped: list[tuple[int, str]]) -> tuple[int, ...]:
        """Requests that were divided: one part has left the actor, another is still inside."""
        if not (self._may_part and (items or dropped)):
            return ()
        inside = self.inside()
        left = {seq for _, marks in items for seq in marks} | {seq for seq, _ in dropped}
        return tuple(sorted(left & inside))


def _through(operator: str, step: Transform, items: Outs) -> Outs:
    """All items through one transform; if one fails, all that are on their way are lost."""
    outs: Outs = []
    for position, (value, marks) in enumerate(items):
        try:
            outs += step.feed(value, marks)
        except BaseException as error:
            lost = [*outs, *items[position:]]
            raise Failed(operator, error, [mark for _, marks in lost for mark in marks]) from error
    return outs
