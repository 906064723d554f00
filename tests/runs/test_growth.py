"""A run that takes long does not take more and more memory, and its policy stays a small file."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

import rillflow as rf
from rillflow.algorithms import impala
from rillflow.results.config_as_json import settings_of
from rillflow.runs import history, metrics_file
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.directory import RunDirectory
from rillflow.runs.job import Job, run_job
from rillflow.runs.listeners import JsonlLogger


def resident() -> int:
    """Bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.proc
@pytest.mark.timeout(240)
def test_memory_and_files_of_a_run_are_flat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IMPALA on CartPole makes hundreds of results a second; from the fourth part of a minute on
    nothing grows."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(metrics_file, "FULL", 1000)
    config = impala.Config.make(env="CartPole-v1", num_workers=2)
    job = Job("impala", impala, config, {"seconds": 60}, engine="local")
    directory = RunDirectory.create(
        tmp_path, "run", algorithm="impala", env="CartPole-v1", engine="local", seed=0,
        config=settings_of(config), until=job.until,
    )  # fmt: skip
    seen: list[tuple[float, int, int, int]] = []
    rows = 0

    def look(row: dict[str, float]) -> None:
        nonlocal rows
        rows += 1
        if row["seconds"] >= 5 * (len(seen) + 1):
            policy = directory.policy.stat().st_size if directory.policy.exists() else 0
            seen.append((row["seconds"], resident(), policy, directory.metrics.stat().st_size))

    began = time.monotonic()
    with directory, Checkpointer(directory, seconds=4) as checkpointer:
        outcome = run_job(
            job, checkpointer=checkpointer, on_row=look, listeners=[JsonlLogger(directory.metrics)]
        )
    print(f"{rows} rows in {time.monotonic() - began:.0f} s")
    for seconds, memory, policy, lines in seen:
        print(f"{seconds:4.0f} s: memory {memory:,}  policy {policy:,}  metrics {lines:,}")
    early, late = seen[2], seen[-1]
    assert len(outcome.trained.history) <= history.MOST + 1
    assert late[1] - early[1] < 4 * 2**20
    assert directory.policy.stat().st_size < 2**20
    assert len(rf.load(directory.policy).history) <= history.MOST + 1
    assert late[3] < 4000 * 600  # bytes; two more lines for each of the first 1000, at most
