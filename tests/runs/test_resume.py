"""A run that is saved, killed or damaged goes on, and on `sim` exactly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import get_algorithm
from rillflow.checkpoint import newest_checkpoint
from rillflow.errors import BuildError
from rillflow.results.config_as_json import settings_of
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.directory import RunDirectory
from rillflow.runs.job import Job, Outcome, run_job
from rillflow.runs.listeners import JsonlLogger
from rillflow.runs.metrics_file import rows_in
from rillflow.runs.saved_job import job_of, resume_job, settings_from

EVERY = 400
"""steps between two saves"""
ON_POLICY = {"num_envs_per_worker": 4, "rollout_fragment_length": 16, "hidden": (16,)}
OFF_POLICY = {
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 8,
    "hidden": (16,),
    "learning_starts": 64,
    "train_batch_size": 16,
    "training_intensity": 1.0,
}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "ppo": {**ON_POLICY, "train_batch_size": 128, "sgd_minibatch_size": 64, "num_sgd_iter": 2},
    "a3c": ON_POLICY,
    "impala": {**ON_POLICY, "train_batch_size": 64},
    "appo": {**ON_POLICY, "train_batch_size": 64, "newer_batches_between": 2},
    "dqn": OFF_POLICY,
    "rainbow": OFF_POLICY,
    "apex": OFF_POLICY,
    "ddpg": {**OFF_POLICY, "env": "PointGoal"},
    "apex_ddpg": {**OFF_POLICY, "env": "PointGoal"},
    "r2d2": {**OFF_POLICY, "memory_size": 8, "burn_in": 4},
    "a2c": {**ON_POLICY, "train_batch_size": 128},
    "async_dqn": ON_POLICY,
    "maml": {**ON_POLICY, "rollout_fragment_length": 20, "num_workers": 2},
    "pg": {**ON_POLICY, "train_batch_size": 128},
    "sac": {**OFF_POLICY, "env": "PointGoal"},
    "simple_q": OFF_POLICY,
    "td3": {**OFF_POLICY, "env": "PointGoal"},
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def job(algorithm: str, steps: int, **settings: Any) -> Job:
    module = get_algorithm(algorithm)
    config = module.Config.make(**{**ALGORITHMS[algorithm], **settings})
    return Job(algorithm, module, config, {"steps": steps}, seed=3, engine="sim")


def directory_of(work: Job, root: Path, name: str) -> RunDirectory:
    return RunDirectory.create(
        root, name, algorithm=work.algorithm, env=str(work.config.env), engine="sim",
        seed=work.seed, config=settings_of(work.config), until=work.until, agents=work.agents,
    )  # fmt: skip


class Died(Exception):  # noqa: N818 - what happened, not what went wrong
    """Ends a run as a crash does."""


class Killed(Checkpointer):
    """Of a run that dies: nothing is saved any more."""

    def rescue(self, error: BaseException) -> None:
        assert isinstance(error, Died)


def dies_at(steps: int) -> Any:
    def stop(row: Any) -> bool:
        if row["steps"] >= steps:
            raise Died
        return False

    return stop


def begin(work: Job, directory: RunDirectory, stop: Any = None, every: int = EVERY) -> Outcome:
    listeners = [JsonlLogger(directory.metrics)]
    kind = Killed if stop else Checkpointer
    with directory, kind(directory, seconds=None, steps=every) as checkpointer:
        return run_job(work, listeners=listeners, checkpointer=checkpointer, stop=stop)


def go_on(
    directory: RunDirectory, steps: int, every: int = EVERY, trust: tuple[str, ...] = ()
) -> Outcome:
    with directory, Checkpointer(directory, seconds=None, steps=every) as checkpointer:
        return resume_job(
            directory,
            until={"steps": steps},
            listeners=[JsonlLogger(directory.metrics)],
            checkpointer=checkpointer,
            trust=trust,
        )


def figures(directory: RunDirectory) -> str:
    return str(
        [{k: v for k, v in row.items() if k != "seconds"} for row in rows_in(directory.metrics)]
    )


def same_weights(left: Outcome, right: Outcome) -> bool:
    ours, theirs = left.trained.weights, right.trained.weights
    return ours.keys() == theirs.keys() and all(
        np.array_equal(ours[name], theirs[name]) for name in ours
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_resumed_run_is_the_run_that_was_not_interrupted(algorithm: str, tmp_path: Path) -> None:
    """Bit for bit, if both are saved at the same points: weights, figures and every row."""
    work = job(algorithm, 2000)
    whole, parts = (directory_of(work, tmp_path, name) for name in ("whole", "parts"))
    expected = begin(work, whole)
    with pytest.raises(Died):
        begin(work, parts, stop=dies_at(1000))
    found = go_on(parts, 2000)
    assert figures(parts) == figures(whole)
    assert len(found.trained.history) == len(expected.trained.history)
    assert same_weights(found, expected)


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_resumed_run_with_masks_of_actions_is_the_same(algorithm: str, tmp_path: Path) -> None:
    """A mask is in the observation, so it is saved and restored with it."""
    work = job(algorithm, 1200, env="tests.masked:GateVector")
    whole, parts = (directory_of(work, tmp_path, name) for name in ("whole", "parts"))
    expected = begin(work, whole)
    with pytest.raises(Died):
        begin(work, parts, stop=dies_at(600))
    assert same_weights(go_on(parts, 1200, trust=("tests.masked:GateVector",)), expected)
    assert expected.trained.spec.masked


def test_a_run_from_before_masks_goes_on_without_them(tmp_path: Path) -> None:
    """Its network sees as numbers what would now be a mask."""
    work = job("ppo", 800, env="tests.masked:GateVector", action_masks=False)
    settings = settings_of(work.config)
    assert settings.pop("action_masks") is False
    assert not settings_from(type(work.config), settings).action_masks


def test_settings_of_no_use_that_an_earlier_version_took_are_left_out() -> None:
    """They are refused today, and nobody can leave them out of a run that was saved."""
    kind = type(job("ppo", 800).config)
    saved = {"env": "CartPole-v1", "lr": 5e-4, "lr_updates": 7, "memory_size": 9}
    with pytest.raises(BuildError, match=r"lr_updates=7 is .* memory_size=9 is "):
        kind(**saved)
    found = settings_from(kind, saved)
    assert found == settings_from(kind, {"env": "CartPole-v1", "lr": 5e-4})
    assert (found.lr, found.lr_updates, found.memory_size) == (5e-4, 10_000, 128)
    with pytest.raises(BuildError, match="lr must be above 0"):
        settings_from(kind, {**saved, "lr": -1.0})


def test_a_resumed_run_of_atari_is_the_run_that_was_not_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Games in native code too: they are played again until they are where they were."""
    pytest.importorskip("ale_py", reason="ale-py is an optional extra")
    monkeypatch.setattr("rillflow.envs.atari_state.STEPS_PER_SEED", 40)
    games = {"max_num_frames_per_episode": 60, "img_height": 36, "img_width": 36}
    # a network without convolutions, which would take most of the time and are not what is asked
    small = {"num_workers": 1, "num_envs_per_worker": 1, "train_batch_size": 16, "model": "mlp"}
    work = job("ppo", 80, env="ALE/Pong-v5", env_config=games, **small)
    whole, parts = (directory_of(work, tmp_path, name) for name in ("whole", "parts"))
    expected = begin(work, whole, every=32)
    with pytest.raises(Died):
        begin(work, parts, stop=dies_at(64), every=32)
    found = go_on(parts, 80, every=32)
    assert figures(parts) == figures(whole)
    assert same_weights(found, expected)


def test_rows_written_after_the_checkpoint_are_made_again(tmp_path: Path) -> None:
    """A run that died between two saves has no row twice."""
    directory = directory_of(job("ppo", 1000), tmp_path, "run")
    begin(job("ppo", 1000), directory)
    with directory.metrics.open("a") as file:
        file.write('{"steps": 99999, "return": null, "seconds": 1e9}\n')
    go_on(directory, 1500)
    steps = [row["steps"] for row in rows_in(directory.metrics)]
    assert steps == sorted(set(steps))
    assert 99999 not in steps


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    """The one before it is used, and it is said."""
    directory = directory_of(job("ppo", 2000), tmp_path, "run")
    begin(job("ppo", 2000), directory)
    (newest, _), (_, manifest), *_ = Checkpointer(directory).store.checkpoints()
    arrays = next(newest.glob("arrays-*"))
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="quarantine"):
        outcome = go_on(directory, 2500)
    assert outcome.trained.history[-1]["steps"] >= 2500
    assert manifest.step < 2000


def test_a_run_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    """And what to do."""
    directory = directory_of(job("ppo", 1000), tmp_path, "run")
    with directory, pytest.raises(rf.RunError, match=r"no checkpoint: .*Begin anew"):
        resume_job(directory)


def test_settings_come_back_as_they_were(tmp_path: Path) -> None:
    """Tuples, numbers and code by its name."""
    work = job("ppo", 100, hidden=(8, 8), grad_clip=None)
    found = job_of(directory_of(work, tmp_path, "run"))
    assert found.config == work.config
    assert (found.seed, found.engine, found.until) == (3, "sim", {"steps": 100})


class Locked(rf.Operator[Any, Any]):
    """Holds what cannot be saved."""

    def __init__(self) -> None:
        self.lock = object()

    def __call__(self, item: Any) -> Any:
        return item

    def get_state(self) -> dict[str, Any]:
        return {"lock": self.lock}


def test_what_cannot_be_saved_stops_nothing(tmp_path: Path) -> None:
    """One warning that names it; training goes on without checkpoints."""
    work = job("ppo", 1500)
    workers, _ = work.build()
    flow = work.module.plan(ParallelRollouts(workers).for_each(lambda batch: batch), workers)
    flow = flow.for_each(Locked())
    directory = directory_of(work, tmp_path, "run")
    checkpointer = Checkpointer(directory, seconds=None, steps=300)
    with (
        directory,
        checkpointer,
        pytest.warns(UserWarning, match=r"no checkpoints .*Locked") as warned,
    ):
        outcome = run_job(work, built=(workers, flow), checkpointer=checkpointer)
    assert outcome.state == "finished"
    assert len(warned) == 1


@pytest.mark.slow
@pytest.mark.proc
@pytest.mark.timeout(240)
def test_a_run_killed_at_any_moment_goes_on(tmp_path: Path) -> None:
    """`kill -9`, also in the middle of a save: it resumes from a checkpoint that is whole."""
    moments = random.Random(4)
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable, "-m", "rillflow", "train", "ppo", "CartPole-v1", "--engine", "sim",
        "--until", "steps=100M", "--checkpoint-steps", "1", "--num-sgd-iter", "1", "--quiet",
        "--num-envs-per-worker", "4", "--train-batch-size", "128", "--sgd-minibatch-size", "64",
        "--run-dir", str(tmp_path), "--name", "run",
    ]  # fmt: skip
    steps = 0
    for attempt in range(3):
        again = [sys.executable, "-m", "rillflow", "resume", str(tmp_path / "run"), "--quiet",
                 "--checkpoint-steps", "1"]  # fmt: skip
        child = subprocess.Popen(
            command if attempt == 0 else again, env=environ, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and child.poll() is None:
            if _step(tmp_path / "run") > steps:
                break
            time.sleep(0.02)
        time.sleep(moments.uniform(0, 0.3))  # saves follow one another: most of it is saving
        child.send_signal(signal.SIGKILL)
        _, errors = child.communicate()
        assert child.returncode == -signal.SIGKILL, errors.decode()
        found = newest_checkpoint(tmp_path / "run" / "checkpoints")
        assert found is not None
        assert found.step > steps
        steps = found.step


def _step(directory: Path) -> int:
    """Of the newest checkpoint's name; 0 before there is one."""
    names = [path.name for path in (directory / "checkpoints").glob("0*-*")]
    return max((int(name.split("-")[0]) for name in names), default=0)
