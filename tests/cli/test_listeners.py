"""Listeners hear everything once, and cannot spoil a run."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rillflow.algorithms import ppo
from rillflow.errors import RunError
from rillflow.runs.job import Job, run_job
from rillflow.runs.listeners import JsonlLogger, Listener, StatusWriter

QUICK = {"num_workers": 1, "num_envs_per_worker": 8, "train_batch_size": 256, "num_sgd_iter": 1,
         "sgd_minibatch_size": 128}  # fmt: skip


def job(**until: float) -> Job:
    config = ppo.Config.make(env="CartPole-v1", **QUICK)
    return Job("ppo", ppo, config, until or {"steps": 1500}, engine="sim")


class Heard(Listener):
    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_start(self, run: Any, flow: Any) -> None:
        self.events.append(("start", flow.explain() == run.explain()))

    def on_row(self, row: Any) -> None:
        self.events.append(("row", row))

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        self.events.append(("end", state, error))


def test_a_listener_hears_the_start_each_row_and_the_end() -> None:
    heard = Heard()
    outcome = run_job(job(), listeners=[heard])
    assert heard.events[0] == ("start", True)
    assert [row for kind, row, *_ in heard.events[1:-1]] == outcome.trained.history
    assert heard.events[-1] == ("end", "finished", None)
    assert outcome.state == "finished"
    assert outcome.trained.history[-1]["steps"] >= 1500


def test_a_job_gives_what_train_gives() -> None:
    """On `sim` the same seed is the same run, however it was started."""
    import rillflow as rf

    one = run_job(job()).trained
    two = rf.train("ppo", "CartPole-v1", until={"steps": 1500}, engine="sim", **QUICK)
    for left, right in zip(one.history, two.history, strict=True):
        same = {name for name in left if name != "seconds"}
        assert [left[n] for n in same] == pytest.approx([right[n] for n in same], nan_ok=True)
    assert all((one.weights[name] == two.weights[name]).all() for name in one.weights)


def test_a_run_can_be_stopped_by_a_row() -> None:
    heard = Heard()
    outcome = run_job(job(steps=1e9), listeners=[heard], stop=lambda row: row["steps"] > 500)
    assert outcome.state == "stopped"
    assert heard.events[-1] == ("end", "stopped", None)


def test_a_listener_that_fails_is_named_and_left_out() -> None:
    class Fails(Heard):
        def on_row(self, row: Any) -> None:
            super().on_row(row)
            raise OSError("disk full")

    fails, fine = Fails(), Heard()
    with pytest.warns(UserWarning, match=r"Fails failed .*OSError: disk full.*training goes on"):
        run_job(job(), listeners=[fails, fine])
    assert [event[0] for event in fails.events] == ["start", "row"]
    assert fine.events[-1][0] == "end"


def test_the_end_of_a_failed_run_is_told_with_its_error() -> None:
    heard = Heard()
    bad = SimpleNamespace(Config=ppo.Config, plan=lambda r, w: ppo.plan(r, w).for_each(str))
    broken = Job("mine", bad, ppo.Config.make(env="CartPole-v1", **QUICK), {"steps": 9}, 0, "sim")
    with pytest.raises(RunError, match="results are TrainStats") as caught:
        run_job(broken, listeners=[heard])
    assert heard.events[-1] == ("end", "failed", caught.value)


def test_metrics_are_whole_lines_at_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lengths: list[int] = []

    class Reader(Listener):
        def on_row(self, row: Any) -> None:
            lengths.append(len(path.read_text().splitlines()))

    outcome = run_job(job(), listeners=[JsonlLogger(path), Reader()])
    rows = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert lengths == list(range(1, len(rows) + 1))
    first = outcome.trained.history[0]
    assert rows[0]["return"] == first["return"] > 0
    assert first["episodes"] < 100
    assert [row["steps"] for row in rows] == [row["steps"] for row in outcome.trained.history]


def test_a_logger_appends_to_what_an_earlier_run_wrote(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"steps": 1}\n')
    run_job(job(), listeners=[JsonlLogger(path)])
    assert path.read_text().startswith('{"steps": 1}\n{"steps": 2')


def test_the_status_is_replaced_while_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    states: list[Any] = []

    class Reader(Listener):
        def on_row(self, row: Any) -> None:
            """An update that takes until the status is another one."""
            until = time.monotonic() + 30
            while True:
                now = json.loads(path.read_text())
                if not states or now["time"] > states[-1]["time"]:
                    break
                assert time.monotonic() < until
                time.sleep(0.001)
            states.append(now)

    run_job(job(), listeners=[StatusWriter(path, every=0.01), Reader()])
    last = json.loads(path.read_text())
    assert len(states) > 1
    assert {status["state"] for status in states} == {"running"}
    assert last["state"] == "finished"
    assert [line["name"] for line in last["operators"]][-1] == "for_each(TrainOneStep)"
    left = {one.name for one in tmp_path.iterdir()}
    assert left <= {path.name, "machine.jsonl"}  # nothing half-written


class Wandb(SimpleNamespace):
    """Stands for the library."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.ended: list[int] = []

    def init(self, **options: Any) -> Wandb:
        self.options = options
        return self

    def define_metric(self, name: str, **options: Any) -> None:
        self.metrics = {**getattr(self, "metrics", {}), name: options}

    def log(self, row: Any, step: int) -> None:
        self.rows.append((step, row))

    def finish(self, exit_code: int) -> None:
        self.ended.append(exit_code)


def test_weights_and_biases_gets_settings_and_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from rillflow.runs import wandb as ours

    library = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", library)
    monkeypatch.setattr(ours, "find_spec", lambda name: name)
    logger = ours.WandbLogger("project", "run-1", tmp_path, {"lr": 0.1}, every=1000)
    outcome = run_job(job(), listeners=[logger])
    assert library.options["project"] == "project"
    assert library.options["config"]["lr"] == 0.1
    assert "TrainOneStep" in library.options["config"]["flow"]
    first, last = outcome.trained.history[0], outcome.trained.history[-1]
    assert [step for step, _ in library.rows] == [first["steps"], last["steps"]]
    assert all(math.isfinite(value) for _, row in library.rows for value in row.values())
    assert library.ended == [0]
    assert library.metrics["eval_*"] == {"step_metric": "eval_steps"}
