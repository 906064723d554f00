"""However a run ends, what it has learned is saved: first the policy, then a checkpoint."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.checkpoint import newest_checkpoint
from rillflow.errors import RunError
from rillflow.results.config_as_json import settings_of
from rillflow.runs import checkpointer as keeping
from rillflow.runs import interrupts as interrupting
from rillflow.runs import waiting_limits as waiting
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.directory import RunDirectory
from rillflow.runs.interrupts import Interrupts
from rillflow.runs.job import Job, Outcome, run_job
from rillflow.runs.listeners import JsonlLogger, Listener
from rillflow.runs.metrics_file import rows_in
from rillflow.runs.saved_job import resume_job
from rillflow.runs.waiting_limits import Waits

SMALL = {
    "num_workers": 2, "num_envs_per_worker": 2, "rollout_fragment_length": 16, "hidden": (8,),
    "train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 1, "env": "CartPole-v1",
}  # fmt: skip


class Faulty(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Raises, or hangs, after so many steps, as long as a file is there."""

    def __init__(self, after: int, file: str, hangs: bool) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.after, self.file, self.hangs, self.steps = after, file, hangs, 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps > self.after and os.path.exists(self.file):
            if not self.hangs:
                raise ValueError("the simulator is broken")
            time.sleep(1000)
        return self.env.step(action)


def faulty(after: int, file: str, hangs: bool = False) -> Faulty:
    return Faulty(after, file, hangs)


@pytest.fixture
def fault(tmp_path: Path) -> Path:
    path = tmp_path / "fault"
    path.touch()
    return path


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "GRACE", 0.5)
    monkeypatch.setattr(keeping, "HURRY", 0.5)


def work(engine: str = "local", until: dict[str, float] | None = None, **settings: Any) -> Job:
    config = ppo.Config.make(**{**SMALL, **settings})
    return Job("ppo", ppo, config, until or {"steps": 100_000}, 3, engine)


def directory_of(job: Job, root: Path) -> RunDirectory:
    return RunDirectory.create(
        root, "run", algorithm="ppo", env=str(job.config.env), engine=job.engine_name,
        seed=job.seed, config=settings_of(job.config), until=job.until,
    )  # fmt: skip


def run(
    job: Job,
    directory: RunDirectory,
    *,
    steps: int | None = None,
    interrupts: Interrupts | None = None,
    on_row: Callable[[dict[str, float]], None] | None = None,
    listeners: Sequence[Listener] = (),
) -> Outcome:
    listeners = [JsonlLogger(directory.metrics), *listeners]
    with directory, Checkpointer(directory, seconds=None, steps=steps) as checkpointer:
        return run_job(
            job,
            listeners=listeners,
            checkpointer=checkpointer,
            interrupts=interrupts,
            on_row=on_row,
        )


def go_on(directory: RunDirectory, steps: int) -> Outcome:
    listeners = [JsonlLogger(directory.metrics)]
    trust = [f"{__name__}:faulty"]
    return resume_job(directory, until={"steps": steps}, listeners=listeners, trust=trust)


def saved_weights(directory: RunDirectory) -> dict[str, Any]:
    return rf.load(directory.policy).weights


def learned(directory: RunDirectory) -> dict[str, Any]:
    """The weights of the learner in the newest checkpoint."""
    newest = newest_checkpoint(directory.checkpoints)
    assert newest is not None
    shared: dict[str, Any] = newest.state["run"]["shared"]
    learner = next(value for key, value in shared.items() if key.startswith("learner"))
    weights: dict[str, Any] = learner["networks"]["policy"]
    return weights


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[k], right[k]) for k in left)


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.proc
@pytest.mark.parametrize("engine", ["sim", "local"])
def test_an_environment_that_raises_before_the_first_save_loses_nothing(
    engine: str, tmp_path: Path, fault: Path
) -> None:
    """Both workers fail at once; policy and checkpoint are of the last update, and it goes on."""
    config = {"after": 100, "file": str(fault)}
    job = work(engine, env=faulty, env_config=config, on_failure="raise")
    directory = directory_of(job, tmp_path)
    with pytest.raises(ValueError, match="simulator is broken") as failed:
        run(job, directory)
    assert any("resume" in note for note in failed.value.__notes__)
    rows = list(rows_in(directory.metrics))
    assert len(rows) >= 2
    assert same(saved_weights(directory), learned(directory))
    newest = newest_checkpoint(directory.checkpoints)
    assert newest is not None
    assert "simulator is broken" in newest.facts["failed"]
    fault.unlink()
    outcome = go_on(directory, 2000)
    assert outcome.trained.history[: len(rows)][0]["steps"] == rows[0]["steps"]
    assert outcome.trained.history[-1]["steps"] >= 2000


class Raises:
    """PPO's update, until it does not work any more."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, m: Any, rows: Any, cfg: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ZeroDivisionError("in the loss")
        yield from ppo.update(m, rows, cfg)


def test_a_learner_that_raises_loses_nothing(tmp_path: Path) -> None:
    job = work("sim", framework="torch", update=Raises(7))
    directory = directory_of(job, tmp_path)
    with pytest.raises(ZeroDivisionError):
        run(job, directory)
    assert len(list(rows_in(directory.metrics))) >= 3
    assert saved_weights(directory).keys() == learned(directory).keys()


def test_what_the_users_own_code_raises_loses_nothing(tmp_path: Path) -> None:
    def mine(row: dict[str, float]) -> None:
        if row["steps"] > 300:
            raise LookupError("mine")

    job = work("sim")
    directory = directory_of(job, tmp_path)
    with pytest.raises(LookupError, match="mine"):
        run(job, directory, on_row=mine)
    assert same(saved_weights(directory), learned(directory))


def test_a_run_that_fails_before_its_first_result_saves_nothing(
    tmp_path: Path, fault: Path
) -> None:
    """There is nothing yet, and what an earlier process saved stays."""
    job = work("sim", env=faulty, env_config={"after": 3, "file": str(fault)})
    directory = directory_of(job, tmp_path)
    with pytest.raises(ValueError, match="broken"):
        run(job, directory)
    assert not directory.policy.exists()
    assert newest_checkpoint(directory.checkpoints) is None
    fault.unlink()
    run(work("sim", {"steps": 500}, env=faulty, env_config=job.config.env_config), directory)
    before = newest_checkpoint(directory.checkpoints)
    fault.touch()
    with pytest.raises(ValueError, match="broken"):
        go_on(directory, 1000)
    after = newest_checkpoint(directory.checkpoints)
    assert before is not None
    assert after is not None
    assert before.path == after.path


class Killer(Listener):
    """Kills a worker after so many steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_start(self, run: Any, flow: Any) -> None:
        self.run = run

    def on_row(self, row: Any) -> None:
        if row["steps"] > self.steps:
            pid = self.run.workers()["worker-1"]["pid"]
            if pid is not None:  # it may take a moment until it is known to be gone
                os.kill(pid, signal.SIGKILL)


@pytest.mark.proc
def test_where_a_worker_is_lost_the_others_are_saved_and_it_is_started_anew(
    tmp_path: Path,
) -> None:
    """Nothing that was learned is lost with a worker: the run goes on with a fresh one."""
    job = work(on_failure="raise")
    directory = directory_of(job, tmp_path)
    with pytest.raises(rf.WorkerLost):
        run(job, directory, steps=400, listeners=[Killer(1000)])
    newest = newest_checkpoint(directory.checkpoints)
    assert newest is not None
    assert "worker-1" in newest.facts["failed"]
    rows = list(rows_in(directory.metrics))
    assert newest.step <= rows[-1]["steps"]
    assert saved_weights(directory)
    assert go_on(directory, 3000).trained.history[-1]["steps"] >= 3000


# -- those who hang --------------------------------------------------------------------------------


@pytest.mark.proc
@pytest.mark.usefixtures("impatient")
def test_a_limit_of_seconds_holds_while_a_worker_hangs(tmp_path: Path, fault: Path) -> None:
    """The policy is saved, and a checkpoint without those who hang; from there it goes on."""
    config = {"after": 100, "file": str(fault), "hangs": True}
    job = work(until={"seconds": 4.0}, env=faulty, env_config=config)
    directory = directory_of(job, tmp_path)
    began = time.monotonic()
    with pytest.warns(UserWarning, match="worker-") as told:
        outcome = run(job, directory)
    assert time.monotonic() - began < 60
    assert outcome.state == "finished"
    texts = [str(one.message) for one in told]
    assert "the limit of seconds is reached, and worker-" in texts[0]
    assert "did not come to rest within 0.5 s, and is not part of this checkpoint" in texts[1]
    last = outcome.trained.history[-1]
    assert last["seconds"] >= 4.0
    assert same(saved_weights(directory), outcome.trained.weights)
    assert same(saved_weights(directory), learned(directory))
    fault.unlink()
    assert go_on(directory, 2000).trained.history[-1]["steps"] >= 2000


@pytest.mark.proc
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_once_is_enough_while_a_worker_hangs(tmp_path: Path, fault: Path, number: int) -> None:
    config = {"after": 100, "file": str(fault), "hangs": True}
    job = work(env=faulty, env_config=config)
    directory = directory_of(job, tmp_path)
    rows: list[float] = []
    done = threading.Event()
    sender = threading.Thread(target=_signal_when_quiet, args=(rows, number, done))
    sender.start()
    try:
        with Interrupts() as interrupts, pytest.warns(UserWarning, match="worker-") as told:
            outcome = run(
                job, directory, interrupts=interrupts, on_row=lambda row: rows.append(row["steps"])
            )
    finally:
        done.set()
        sender.join()
    assert outcome.state == "stopped"
    assert interrupts.exit_code == 128 + number
    assert "you want to stop, and worker-" in str(told[0].message)
    assert same(saved_weights(directory), outcome.trained.weights)
    assert same(saved_weights(directory), learned(directory))


@pytest.mark.usefixtures("impatient")
def test_once_is_enough_while_an_environment_of_the_driver_hangs(
    tmp_path: Path, fault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else can be asked then; the policy is saved."""
    monkeypatch.setattr(interrupting, "LIMIT", 1.0)
    config = {"after": 100, "file": str(fault), "hangs": True}
    job = work(env=faulty, env_config=config, num_workers=0)
    directory = directory_of(job, tmp_path)
    rows: list[float] = []
    done = threading.Event()
    sender = threading.Thread(target=_signal_when_quiet, args=(rows, signal.SIGTERM, done))
    sender.start()
    try:
        with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
            run(job, directory, interrupts=interrupts, on_row=lambda row: rows.append(0.0))
    finally:
        done.set()
        sender.join()
    assert interrupts.exit_code == 128 + signal.SIGTERM
    assert saved_weights(directory)


def _signal_when_quiet(rows: list[float], number: int, done: threading.Event) -> None:
    """When there are rows, and there have been no more for a while."""
    count = 0
    while not done.wait(1.5):
        if rows and len(rows) == count:
            os.kill(os.getpid(), number)
            return
        count = len(rows)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_once_saves_policy_and_checkpoint(tmp_path: Path, number: int) -> None:
    job = work("sim")
    directory = directory_of(job, tmp_path)

    def send(row: dict[str, float]) -> None:
        if row["steps"] > 500:
            os.kill(os.getpid(), number)
            signals.append(number)

    signals: list[int] = []
    with Interrupts() as interrupts:
        outcome = run(job, directory, interrupts=interrupts, on_row=send)
    assert outcome.state == "stopped"
    assert signals == [number]
    assert same(saved_weights(directory), learned(directory))
    assert go_on(directory, 1000).state == "finished"


def test_one_who_stops_at_once_still_has_the_policy(tmp_path: Path) -> None:
    """Nobody is asked for a checkpoint."""

    def send(row: dict[str, float]) -> None:
        if row["steps"] > 500:
            raise KeyboardInterrupt

    job = work("sim")
    directory = directory_of(job, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(job, directory, on_row=send)
    assert saved_weights(directory)
    assert newest_checkpoint(directory.checkpoints) is None


def test_one_who_stops_while_the_end_is_told_has_a_run_that_stopped(tmp_path: Path) -> None:
    """Whoever writes down how a run ended hears of it again: it may have been interrupted."""

    class Slow(Listener):
        def on_end(self, state: str, error: BaseException | None = None) -> None:
            told.append(state)
            if len(told) == 1:
                raise KeyboardInterrupt

    told: list[str] = []
    job = work("sim", {"steps": 200})
    directory = directory_of(job, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(job, directory, listeners=[Slow()])
    assert told == ["finished", "stopped"]


def test_who_ignores_hangups_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_waits_are_as_they_were_afterwards() -> None:
    with rf.from_range(3, num_shards=2).gather_sync().run("local") as flow:
        with Waits(flow):
            assert "wait" in vars(flow.engine)
            assert list(flow) == [[0, 1], [2]]
        assert "wait" not in vars(flow.engine)
    with rf.from_range(3, num_shards=2).gather_sync().run("sim") as flow, Waits(flow):
        assert "wait" not in vars(flow.engine)


# -- what is not worth saving ----------------------------------------------------------------------


class Poisons:
    """PPO's update, which once writes what is not finite into the weights, past every check."""

    def __init__(self, part: str) -> None:
        self.part, self.calls = part, 0

    def __call__(self, m: Any, rows: Any, cfg: Any) -> Any:
        self.calls += 1
        (step,) = ppo.update(m, rows, cfg)
        if self.calls == 12:
            for name, parameter in m.policy.model.named_parameters():
                if name.startswith(self.part):
                    parameter.data[0] = float("nan")
        yield step


def all_finite(weights: dict[str, Any]) -> bool:
    return all(np.isfinite(array).all() for array in weights.values())


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    """The last good policy and checkpoint stay, and from there it goes on when it is mended."""
    directory = directory_of(work("sim"), tmp_path)
    with (
        pytest.warns(UserWarning, match="not finite") as told,
        pytest.raises(RunError, match="outputs of the policy are not finite"),
    ):
        run(work("sim", framework="torch", update=Poisons("action")), directory, steps=64)
    texts = [str(one.message) for one in told]
    assert sum("the policy is not saved: its weights " in text for text in texts) == 2
    assert sum("no checkpoint this time: " in text for text in texts) == 1
    assert sum("no checkpoint of this failure: " in text for text in texts) == 1
    assert all_finite(saved_weights(directory))
    assert all_finite(learned(directory))
    assert go_on(directory, 2000).state == "finished"


def test_a_run_that_ends_with_weights_that_are_not_finite_fails(tmp_path: Path) -> None:
    """Also if it can still act with them."""
    directory = directory_of(work("sim"), tmp_path)
    bad = work("sim", {"steps": 1200}, max_nonfinite_steps=1000, framework="torch",
               update=Poisons("value"))  # fmt: skip
    with (
        pytest.warns(UserWarning, match="not finite"),
        pytest.raises(RunError, match=r"the policy is not saved.*not finite.*newest is of step"),
    ):
        run(bad, directory, steps=64)
    assert all_finite(saved_weights(directory))
    assert all_finite(learned(directory))
