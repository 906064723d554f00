"""Actors that live in the driver, on the local engine, beside those in processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.flows.merge import Concurrently
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.graph.handles import Background
from tests.engines.processes import PATIENCE


class Writer:
    """Leaves a file for each request, so that others see that it was asked."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.count = 0

    def next(self) -> int:
        self.count += 1
        (self.folder / str(self.count)).touch()
        return self.count


class Waits:
    """Is done with an item when the next one is being made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, item: int) -> int:
        until = time.monotonic() + PATIENCE
        while not (self.folder / str(item + 1)).exists():
            assert time.monotonic() < until, f"nobody was asked for item {item + 1} meanwhile"
            time.sleep(0.001)
        return item


@pytest.mark.proc
def test_processes_are_asked_before_the_driver_works_for_its_own_actors(tmp_path: Path) -> None:
    source: Any = rf.from_actors(rf.Actors.of(Writer, 1, str(tmp_path))).gather_async()
    waits = Background(Waits(tmp_path), placement="driver")
    feed = source.for_each(Enqueue(waits.inqueue))
    flow = Concurrently([feed, Dequeue(waits.outqueue)], mode="async", output_indexes=[1])
    with flow.run("local") as run:
        assert [next(run) for _ in range(5)] == [1, 2, 3, 4, 5]
