"""Runs that go on after faults, with `rf.train` and `resume`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.runs import checkpointer as keeping
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.saved_job import job_of, resume_job
from tests.runs.test_endings import Killer, directory_of, run, work


@pytest.mark.proc
def test_a_worker_that_is_killed_comes_back_and_the_user_is_told(tmp_path: Path) -> None:
    job = work(until={"steps": 6000})
    killer = Once(1000)
    with pytest.warns(UserWarning, match="worker-1.*killed by SIGKILL.*is restarted") as told:
        outcome = run(job, directory_of(job, tmp_path), listeners=[killer])
    assert outcome.state == "finished"
    assert len(told) == 1
    assert killer.run.workers()["worker-1"]["restarts"] == 1
    assert killer.run.ledger().balanced


class Once(Killer):
    """Kills a worker one time."""

    def on_row(self, row: Any) -> None:
        if row["steps"] > self.steps:
            os.kill(self.run.workers()["worker-1"]["pid"], signal.SIGKILL)
            self.steps = 10**9


def test_a_run_that_goes_on_may_change_what_faults_do_and_nothing_else(tmp_path: Path) -> None:
    directory = directory_of(work("sim"), tmp_path)
    found = job_of(directory, settings={"on_failure": "raise", "worker_timeout": 5.0}).config
    assert (found.on_failure, found.worker_timeout) == ("raise", 5.0)
    with pytest.raises(rf.BuildError, match=r"goes on with its own \['lr'\]"):
        resume_job(directory, lr=1.0)


def test_a_young_run_is_saved_early_and_then_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On `sim` only as often as was asked for: there a save is part of what is repeated."""
    clock = 0.0
    monkeypatch.setattr(keeping.time, "monotonic", lambda: clock)
    saves: dict[str, list[float]] = {}
    for engine in ("local", "sim"):
        clock = 0.0
        job = work(engine)
        with Checkpointer(directory_of(job, tmp_path / engine)) as checkpointer:
            saves[engine] = []
            while clock < 200:
                clock += 1.0
                if clock - checkpointer._saved_at >= checkpointer._interval():
                    checkpointer._saved_at = clock
                    saves[engine].append(clock)
    assert saves["local"] == [2, 4, 8, 16, 32, 64, 124, 184]
    assert saves["sim"] == [60, 120, 180]
