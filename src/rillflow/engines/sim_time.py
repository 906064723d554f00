"""Virtual time: what is due when."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

from rillflow.engines.sim_cores import Cores


class Timeline:
    """The agenda of a simulation and its clock; what is due together is ordered by the seed."""

    def __init__(self, cores: Cores) -> None:
        self.clock = 0.0
        self.cores = cores
        self.rng = random.Random(0)
        self._agenda: list[tuple[float, int, float, int, Callable[[], None]]] = []
        self._depth = 0
        self._ids = itertools.count()

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Let something happen at a time."""
        # At one instant, what was caused first happens first; only what is level is shuffled. So
        # without latencies no actor can run far ahead of another.
        depth = self._depth + 1 if when <= self.clock else 0
        heapq.heappush(self._agenda, (when, depth, self.rng.random(), next(self._ids), action))

    def work(self, cpu: float, wait: float, done: Callable[[], None]) -> None:
        """Let so many seconds of waiting pass, then so many of one core's time, then `done`."""

        def after_wait() -> None:
            if cpu:
                self.cores.add(self.clock, cpu, lambda _: done())
            else:
                done()

        self.at(self.clock + wait, after_wait)

    def occupy(self, cpu: float, wait: float = 0.0) -> float:
        """The driver works: everything else goes on meanwhile. Returns the seconds it took."""
        began = self.clock
        finished: list[float] = []
        if wait:
            self.at(began + wait, lambda: self.cores.add(self.clock, cpu, finished.append))
        else:
            self.cores.add(began, cpu, finished.append)
        while not finished:
            self.step(None)
        self.clock = max(self.clock, finished[0])
        return self.clock - began

    def step(self, until: float | None) -> bool:
        """Let the next thing happen; False: nothing does before `until`."""
        finish = self.cores.next_finish() if self.cores.jobs else None
        if self._agenda and (finish is None or self._agenda[0][0] < finish):
            due, finish = self._agenda[0][0], None
        elif finish is not None:
            due = finish
        else:
            return False
        if until is not None and due > until:
            return False
        if due > self.clock:
            self.clock, self._depth = due, 0
        if finish is not None:
            self.cores.finish_one(self.clock)
        else:
            _, self._depth, _, _, action = heapq.heappop(self._agenda)
            action()
        return True

    def clear(self) -> None:
        """Nothing more happens."""
        self._agenda.clear()
