"""How long does it take to build, check and explain a plan with 256 workers?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

from _common import Figure, figure, load

import rillflow as rf

WORKERS, REPLAYS = 256, 8


class RolloutWorker:
    def sample(self) -> int:
        return 0

    def set_weights(self, weights: int) -> None:
        self.weights = weights


class Replay:
    def add(self, batch: Any) -> None:
        self.batch = batch

    def replay(self) -> int:
        return 0


class Store:
    def __init__(self, replays: rf.Actors) -> None:
        self.replays = replays

    def __call__(self, batch: Any, ctx: rf.Context) -> Any:
        ctx.send(self.replays[0], "add", batch)
        return batch


class Update:
    def __init__(self, workers: rf.Actors) -> None:
        self.workers = workers

    def __call__(self, item: Any, ctx: rf.Context) -> Any:
        ctx.send(self.workers, "set_weights", item)
        return item


def apex(workers: int) -> rf.Flow[Any]:
    """Ape-X in miniature: store, replay into a learner on a thread, update; three branches."""
    group = rf.Actors.of(RolloutWorker, workers, name="rollout")
    replays = rf.Actors.of(Replay, REPLAYS, name="replay")
    learner: rf.Background = rf.Background(lambda batch: batch, name="learner")
    store = rf.from_actors(group, "sample").gather_async(num_async=2).for_each(Store(replays))
    replay = rf.from_actors(replays, "replay").gather_async(num_async=4)
    feed = replay.for_each(rf.Enqueue(learner.inqueue))
    update = rf.Dequeue(learner.outqueue).for_each(Update(group))
    return rf.Concurrently([store, feed, update], mode="async", output_indexes=[2])


def plan_for_256(repeats: int) -> Iterator[Figure]:
    """Everything that happens before a run starts, and the picture of it."""
    seconds, lines = [], 0
    for _ in range(3 * repeats):
        began = time.perf_counter()
        flow = apex(WORKERS)
        problems = flow.check()
        lines = len(flow.explain().splitlines())
        seconds.append(time.perf_counter() - began)
        assert not problems
    yield figure(
        "build_check_explain_256", 1e3 * statistics.median(seconds), "ms", "< 100",
        first_ms=round(1e3 * seconds[0], 1), lines=lines, load=load(),
    )  # fmt: skip
