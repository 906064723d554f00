"""How many items per second do `local` and `ray` carry? For reference, without a bar."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from _common import Figure, figure, interleaved, load, seconds_for

import rillflow as rf

_FLOATS = 150_000  # 1.2 MB


class Source:
    """Gives the same item again and again: nothing, or an array."""

    def __init__(self, floats: int) -> None:
        self.item = np.zeros(floats) if floats else None

    def next(self) -> Any:
        return self.item


def items_per_second(repeats: int, ray: bool) -> Iterator[Figure]:
    """Two actors, each item read in the driver."""
    engines = ["local", "ray"] if ray else ["local"]
    for what, floats, items in (("empty", 0, 1000), ("1.2 MB", _FLOATS, 100)):
        runs = [_flow(floats).run(engine) for engine in engines]  # type: ignore[arg-type]
        for run in runs:
            seconds_for(run.__next__, 50)
        contestants = [partial(seconds_for, run.__next__, items) for run in runs]
        results = interleaved(contestants, repeats)
        for run in runs:
            run.stop()
        for engine, seconds in zip(engines, results, strict=True):
            rate = items / statistics.median(seconds)
            yield figure(f"items_{engine}_{what.replace(' ', '')}", rate, "items/s", load=load())


def _flow(floats: int) -> rf.Flow[Any]:
    return rf.from_actors(rf.Actors.of(Source, 2, floats)).gather_async()
