"""How much processor time does a flow use while it waits?"""

from __future__ import annotations

import time
from collections.abc import Iterator

from _common import Figure, figure, load

import rillflow as rf
from rillflow.simulation.cpu_meters import schedstat

SLEEP = 2.0


class Sleeper:
    """Answers the first request at once and sleeps in every later one."""

    def __init__(self) -> None:
        self.asked = False

    def next(self) -> int:
        if self.asked:
            time.sleep(SLEEP)
        self.asked = True
        return 1


def waiting_flow(_: int) -> Iterator[Figure]:
    """Driver and two workers, while both workers sleep for two seconds."""
    with rf.from_actors(rf.Actors.of(Sleeper, 2)).gather_sync().run("local") as run:
        next(run)
        pids = [worker["pid"] for worker in run.workers().values()]
        began, before = time.perf_counter(), _cpu(pids)
        next(run)
        seconds, used = time.perf_counter() - began, _cpu(pids) - before
    yield figure(
        "idle_flow", 100 * used / seconds, "% of a core", "< 1",
        cpu_ms=round(1e3 * used, 2), seconds=round(seconds, 2), load=load(),
    )  # fmt: skip


def _cpu(pids: list[int]) -> float:
    return time.process_time() + sum(schedstat(f"/proc/{pid}/schedstat")[0] for pid in pids)
