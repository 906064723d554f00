"""How long does a simulation of 1,000 workers and 100,000 items take?"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator

from _common import Figure, figure, load
from a3c_work import a3c

from rillflow.engines.sim import Sim

WORKERS, ITEMS = 1000, 100_000


def thousand_workers(_: int) -> Iterator[Figure]:
    """The A3C-shaped flow, random latencies, a message back for each item."""
    engine = Sim({"worker": _latency, "for_each(Apply)": 1e-5})
    began = time.perf_counter()
    with a3c(0.0, WORKERS).run(engine) as run:
        items = sum(1 for _ in itertools.islice(run, ITEMS))
        virtual = engine.now()
    yield figure(
        "sim_1000_workers_100k_items", time.perf_counter() - began, "s", "<= 15",
        items=items, virtual_seconds=round(virtual, 3), load=load(),
    )  # fmt: skip


def _latency(rng: random.Random) -> float:
    return rng.uniform(0.01, 0.03)
