"""Who is busy in a run is told wherever its progress is shown; a GPU only if there is one."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import rillflow as rf
from rillflow.runs import machine_use
from rillflow.runs.busy import busy, busy_line, machine_of, note_machine
from rillflow.runs.progress.display import Display
from rillflow.runs.status import snapshot
from rillflow.scheduler.stats import RunStats
from rillflow.scheduler.times import TimeShare


def share(name: str, where: str, part: float, **more: Any) -> TimeShare:
    return TimeShare(name, where, more.pop("kind", "operator"), 1, part, part, **more)


def stats(*times: TimeShare) -> RunStats:
    return RunStats(1.0, [], [], "", 0.0, {}, list(times))


def test_shares_are_those_of_workers_learner_and_gpus() -> None:
    told = busy(
        stats(
            share("for_each(TrainOneStep)", "driver", 0.002),
            share("environments", "worker", 0.8, part_of="rollouts"),
            share("policy", "worker", 0.1, part_of="rollouts"),
            share("background(learner)", "learner", 0.4),
            share("idle, messages", "learner", 0.6, kind="rest"),
        ),
        {"gpu": 37.5, "cpu": 12.0},
    )
    assert told == {"environments": 0.8, "acting": 0.1, "learner": 0.4, "gpu": 0.375}
    assert busy_line(told) == "busy: environments 80%, acting 10%, learner 40%, GPU 38%"


def test_the_learner_may_be_an_operator_of_the_driver() -> None:
    assert busy(stats(share("for_each(TrainOneStep)", "driver", 0.7)), {}) == {"learner": 0.7}


def test_nothing_is_said_of_what_there_is_not() -> None:
    told = busy(stats(share("for_each(print)", "driver", 0.7)), {"cpu": 1.0})
    assert told == {}
    assert busy_line(told) == ""


@pytest.mark.proc
@pytest.mark.parametrize("gpu", [None, "42, 1024, 2048\n"])
def test_status_and_display_show_it(
    gpu: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for the GPU there is its share; without one there is none."""
    sample = machine_use.parsed(gpu) if gpu else {}
    monkeypatch.setattr(machine_use.Gpu, "sample", lambda self: sample)
    monkeypatch.setattr(machine_use, "_FIRST", 0.2)
    run = rf.train(
        "ppo",
        "CartPole-v1",
        until={"seconds": 4.0},
        num_workers=1,
        run_dir=tmp_path / "run",
        progress=False,
    )
    told = json.loads((tmp_path / "run" / "status.json").read_text())["busy"]
    assert {"environments", "acting", "learner"} <= told.keys()
    assert all(0.0 <= value <= 1.0 for value in told.values())
    assert told.get("gpu") == (0.42 if gpu else None)
    assert run.state == "finished"


@pytest.mark.proc
def test_the_display_has_a_line_for_it() -> None:
    from rillflow.algorithms import ppo
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import Workers

    workers = Workers(ppo.Config(num_workers=1, num_envs_per_worker=2))
    flow = ppo.plan(ParallelRollouts(workers), workers)
    out = io.StringIO()
    with flow.run("local") as run:
        next(run)
        note_machine(run, {"gpu": 12.0})
        assert machine_of(run) == {"gpu": 12.0}
        display = Display("title", {"steps": 100}, console=Console(file=out, width=100, height=40))
        display._run = run
        display.on_row({"steps": 1.0, "return": 1.0, "episodes": 3, "seconds": 1.0})
        display.console.print(display.picture())
        assert snapshot(run)["busy"]["gpu"] == 0.12
    assert "busy: environments" in out.getvalue()
    assert "GPU 12%" in out.getvalue()
