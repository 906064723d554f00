"""Do 64 workers, each a process, give 64 times what one gives?

    python benchmarks/many_workers.py [REPEATS]

The question is one for a machine with sixteen cores or more, so the file also runs by itself: it
needs NumPy, cloudpickle and this source tree.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator

from _common import Figure, figure, load

import rillflow as rf

WORKERS = 64
SLEEP = 0.010


class Sleeper:
    """Sleeps, and gives a number."""

    def next(self) -> int:
        time.sleep(SLEEP)
        return 1


def rate(workers: int, seconds: float = 2.0) -> float:
    """Results per second, after a second to warm up."""
    flow = rf.from_actors(rf.Actors.of(Sleeper, workers, name="sleeper")).gather_async()
    with flow.run("local") as run:
        for _ in range(4 * workers):
            next(run)
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            next(run)
            count += 1
        return count / (time.perf_counter() - began)


def scaling(repeats: int) -> Iterator[Figure]:
    """Results per second of many workers over those of one, times their number."""
    ones, many = [], []
    for _ in range(max(1, repeats // 2)):
        ones.append(rate(1))
        many.append(rate(WORKERS))
    one, all_ = statistics.median(ones), statistics.median(many)
    yield figure(
        "workers_64", all_ / (WORKERS * one), "results/s of 64 over 64 x one", ">= 0.95",
        one_per_s=round(one, 1), all_per_s=round(all_, 1), load=load(),
    )  # fmt: skip


if __name__ == "__main__":
    for found in scaling(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
        print(found.line())
