"""What does the driver pay for a result: an item of 1 KB in, weights of 1 KB back, four workers?

The workers do nothing, so that the driver is never idle. Its processor time per result is compared
with a raw loop on the same kind of sockets in the same run, and the Python functions it calls for a
result are counted.
"""

from __future__ import annotations

import socket
import statistics
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from _common import Figure, Took, figure, interleaved, load, seconds_for
from a3c_by_hand import Sockets

import rillflow as rf

WORKERS = 4
NUMBERS = 128
"""float64: 1 KB"""


class Worker:
    """Gives the weights that it was told."""

    def __init__(self) -> None:
        self.weights: Any = np.zeros(NUMBERS)

    def sample(self) -> Any:
        return self.weights + 1.0

    def set_weights(self, weights: Any) -> None:
        self.weights = weights


class Apply:
    """Takes an item in and sends new weights to the worker it came from."""

    def __init__(self) -> None:
        self.version = 0

    def __call__(self, item: Any, ctx: rf.Context) -> Any:
        self.version += 1
        ctx.send(ctx.sources, "set_weights", item, version=self.version)
        return item


def flow() -> rf.Flow[Any]:
    """Items as they are ready, each answered."""
    workers = rf.Actors.of(Worker, WORKERS, name="worker")
    return rf.from_actors(workers, "sample").gather_async().for_each(Apply())


def serve(sock: socket.socket, work: float) -> None:
    """The worker process of `Raw`."""
    worker = Worker()
    with suppress(ConnectionError):  # the driver closes its end when it has enough
        sock.recv(65536)
        sock.send(worker.sample().tobytes())
        while data := sock.recv(65536):
            worker.set_weights(np.frombuffer(data))
            sock.send(worker.sample().tobytes())


class Raw(Sockets):
    """Packets on Unix sockets and one epoll: the bytes of the arrays and nothing else."""

    serve = staticmethod(serve)

    def step(self) -> None:
        if not self.ready:
            self.ready = self.epoll.poll()
        sock = self.sockets[self.ready.pop()[0]]
        item = np.frombuffer(sock.recv(65536))
        sock.send(item.tobytes())


def per_result(repeats: int) -> Iterator[Figure]:
    """Processor time of the driver per result, over that of the raw loop; calls per result."""
    items = 4000
    with flow().run("local") as run, Raw(0.0, WORKERS) as raw:
        steps = [run.__next__, raw.step]
        for step in steps:
            seconds_for(step, 500)
        ours, theirs = interleaved(
            [partial(seconds_for, step, items) for step in steps], 3 * repeats
        )
        ratio = statistics.median(o.cpu / t.cpu for o, t in zip(ours, theirs, strict=True))
        yield figure(
            "driver_cpu_per_result", ratio, "flow / raw sockets", "<= 4.5",
            flow_us=_cpu(ours, items), raw_us=_cpu(theirs, items), load=load(),
        )  # fmt: skip
        python, builtin = _calls(run.__next__, 400)
        yield figure(
            "driver_calls_per_result", python, "Python calls", "<= 60", builtin_calls=builtin
        )


def _cpu(took: list[Took], items: int) -> float:
    return round(1e6 * statistics.median(one.cpu for one in took) / items, 1)


def _calls(step: Any, items: int) -> tuple[float, float]:
    """Calls of Python functions, and of built-in ones, per item."""
    count = {"call": 0, "c_call": 0}

    def note(frame: Any, event: str, arg: Any) -> None:
        if event in count:
            count[event] += 1

    sys.setprofile(note)
    try:
        for _ in range(items):
            step()
    finally:
        sys.setprofile(None)
    return round(count["call"] / items, 1), round(count["c_call"] / items, 1)
