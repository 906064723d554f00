"""Things to do at a time on the engine's clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Timers:
    """What is due next, first."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.pending: list[tuple[float, int, Callable[[], None]]] = []
        """a heap; empty: nothing is ever due"""
        self._order = itertools.count()

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a time."""
        heapq.heappush(self.pending, (when, next(self._order), action))

    def run_due(self) -> None:
        """Do what is due."""
        while self.pending and self.pending[0][0] <= self._now():
            heapq.heappop(self.pending)[2]()

    def until_next(self) -> float | None:
        """Seconds until something is due; None: nothing ever."""
        return max(0.0, self.pending[0][0] - self._now()) if self.pending else None
