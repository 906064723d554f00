"""What does a flow cost on `ray`, against a `ray.wait` loop written by hand?"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

from _common import Figure, figure, interleaved, load, median_ratio, seconds_for
from a3c_work import Worker, a3c, gradient


class RayLoop:
    """The shape of listing A2 of the paper's appendix: ray.wait, ray.get, two remote calls."""

    def __init__(self, work: float, workers: int = 2) -> None:
        import ray

        class Remote(Worker):
            def sample_and_grad(self) -> int:
                return gradient(self.sample())

        self.ray = ray
        self.version = 0
        self.actors = [ray.remote(Remote).options(num_cpus=0).remote(work) for _ in range(workers)]
        self.pending = {actor.sample_and_grad.remote(): actor for actor in self.actors}

    def step(self) -> None:
        (ready, *_), _ = self.ray.wait(list(self.pending), num_returns=1)
        actor = self.pending.pop(ready)
        self.ray.get(ready)
        self.version += 1
        actor.set_weights.remote(self.version)
        self.pending[actor.sample_and_grad.remote()] = actor

    def close(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)


def with_work(repeats: int) -> Iterator[Figure]:
    """1 ms of work per item: throughput of the flow over that of the loop by hand."""
    work, items = 0.001, 200
    by_hand = RayLoop(work)
    with a3c(work).run("ray") as run:
        for step in (run.__next__, by_hand.step):
            seconds_for(step, 100)
        steps = [run.__next__, by_hand.step]
        contestants = [partial(seconds_for, step, items) for step in steps]
        flow, loop = interleaved(contestants, 3 * repeats)
    by_hand.close()
    yield figure(
        "a3c_ray_1ms", median_ratio(flow, loop), "flow / by hand", ">= 0.95",
        flow_items_per_s=round(items / statistics.median(flow)),
        ray_wait_items_per_s=round(items / statistics.median(loop)),
        load=load(),
    )  # fmt: skip


def driver_cost(repeats: int) -> Iterator[Figure]:
    """No work, four workers, 1 KB each way: processor time of the driver's thread per result."""
    import driver_cost as same

    items = 300
    by_hand = RayArrays()
    with same.flow().run("ray") as run:
        steps = [run.__next__, by_hand.step]
        for step in steps:
            seconds_for(step, 100)
        flow, loop = interleaved([partial(seconds_for, step, items) for step in steps], 3 * repeats)
    by_hand.close()
    ratio = statistics.median(f.cpu / w.cpu for f, w in zip(flow, loop, strict=True))
    yield figure(
        "driver_cpu_per_result_ray", ratio, "flow / ray.wait by hand", "<= 1.15",
        flow_us=round(1e6 * statistics.median(f.cpu for f in flow) / items, 1),
        by_hand_us=round(1e6 * statistics.median(w.cpu for w in loop) / items, 1),
        load=load(),
    )  # fmt: skip


class RayArrays(RayLoop):
    """The same loop with arrays of 1 KB and four workers."""

    def __init__(self) -> None:
        import driver_cost as same
        import ray

        self.ray = ray
        remote = ray.remote(same.Worker)
        self.actors = [remote.options(num_cpus=0).remote() for _ in range(same.WORKERS)]
        self.pending = {actor.sample.remote(): actor for actor in self.actors}

    def step(self) -> None:
        (ready, *_), _ = self.ray.wait(list(self.pending), num_returns=1)
        actor = self.pending.pop(ready)
        item = self.ray.get(ready)
        actor.set_weights.remote(item)
        self.pending[actor.sample.remote()] = actor
