"""The A3C-shaped loop: what a worker does, and the flow. Every contestant uses this same work."""

from __future__ import annotations

import time
from typing import Any

import rillflow as rf


class Worker:
    """A rollout worker in miniature: some work, an item that depends on the newest weights."""

    def __init__(self, work: float) -> None:
        self.work = work
        self.weights = 0

    def sample(self) -> int:
        if self.work:
            time.sleep(self.work)
        return self.weights

    def set_weights(self, weights: int) -> None:
        self.weights = weights


def gradient(sample: int) -> int:
    """The parallel map, inside the worker."""
    return sample + 1


class Apply:
    """Take a gradient in, and send new weights to the worker it came from."""

    def __init__(self) -> None:
        self.version = 0

    def __call__(self, item: int, ctx: rf.Context) -> int:
        self.version += 1
        ctx.send(ctx.sources, "set_weights", self.version, version=self.version)
        return item


def a3c(work: float, workers: int = 2) -> rf.Flow[Any]:
    """Parallel map, asynchronous gather with one request per worker, a message back per item."""
    group = rf.Actors.of(Worker, workers, work, name="worker")
    samples = rf.from_actors(group, "sample")
    return samples.for_each(gradient).gather_async().for_each(Apply())
