"""A long run needs no more memory than a short one."""

from __future__ import annotations

import gc
import resource
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf

PIECES = 500
WARM, ALL = 200_000, 1_000_000
MOST = 8 << 20
"""bytes that the allocator may keep for itself"""


class Source:
    """Lists of numbers, for ever; each is told back to it."""

    def __init__(self) -> None:
        self.told = 0

    def next(self) -> list[int]:
        return list(range(PIECES))

    def tell(self, version: int) -> None:
        self.told = version


class Count(rf.Operator[Any, Any]):
    """Sends a message without a version and one with a version for every thousandth item."""

    def __init__(self, group: rf.Actors) -> None:
        self.group = group
        self.seen = 0

    def __call__(self, item: int, ctx: rf.Context) -> int:
        self.seen += 1
        if self.seen % 1000 == 0:
            ctx.send(self.group, "tell", self.seen)
            ctx.send(self.group, "tell", self.seen, version=self.seen)
        return item


def resident() -> int:
    """Bytes of this process that are in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.proc
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["sim", "local"])
def test_memory_is_flat_over_a_million_items(engine: str) -> None:
    """Between 200,000 and 1,000,000 items the driver grows by no more than the allocator keeps."""
    group = rf.Actors.of(Source, 2, name="source")
    flow = rf.from_actors(group).flatten().gather_async(num_async=2).for_each(Count(group))
    with flow.run(engine) as run:  # type: ignore[arg-type]
        for _ in range(WARM):
            next(run)
        before = resident()
        for _ in range(ALL - WARM):
            next(run)
        grown = resident() - before
        assert run.ledger().balanced
    assert grown < MOST, f"{grown / 2**20:.1f} MiB more"
