"""The cores of a virtual cluster, which jobs share."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Cores:
    """Processor sharing: with n jobs on c cores each runs at min(1, c / n) of full speed."""

    def __init__(self, count: int | None) -> None:
        self.count = count
        self.served = 0.0
        """work given to each running job since the beginning: a clock that slows with many jobs"""
        self.updated = 0.0
        self.work = 0.0
        """seconds of work that were asked for, over all jobs"""
        self.jobs: list[tuple[float, int, Callable[[float], None]]] = []
        self._ids = itertools.count()

    @property
    def speed(self) -> float:
        """Progress of each job per second."""
        if self.count is None or len(self.jobs) <= self.count:
            return 1.0
        return self.count / len(self.jobs)

    def _advance(self, now: float) -> None:
        self.served += (now - self.updated) * self.speed
        self.updated = now

    def add(self, now: float, work: float, done: Callable[[float], None]) -> None:
        """A job that needs `work` seconds of one core; after them `done(time)` is called."""
        self._advance(now)
        self.work += work
        heapq.heappush(self.jobs, (self.served + work, next(self._ids), done))

    def next_finish(self) -> float | None:
        """When the next job is done, if nothing changes before."""
        if not self.jobs:
            return None
        return self.updated + max(0.0, self.jobs[0][0] - self.served) / self.speed

    def finish_one(self, now: float) -> None:
        """The job that is due at `now` ends."""
        self._advance(now)
        self.served = max(self.served, self.jobs[0][0])
        _, _, done = heapq.heappop(self.jobs)
        done(now)
