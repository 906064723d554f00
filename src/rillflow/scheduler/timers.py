"""Things to do at a time on the engine's clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Timers:
    """What is due next, first."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a time."""
        heapq.heappush(self._heap, (when, next(self._order), action))

    def run_due(self) -> None:
        """Do what is due."""
        while self._heap and self._heap[0][0] <= self._now():
            heapq.heappop(self._heap)[2]()

    def until_next(self) -> float | None:
        """Seconds until something is due; None: nothing ever."""
        return max(0.0, self._heap[0][0] - self._now()) if self._heap else None
