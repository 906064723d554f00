"""`evaluate`, `record` and `export` of runs that go on, were killed, failed or were resumed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import QUICK, environment

PATIENCE = 60.0
SMALL = ("--num-envs-per-worker=4", "--rollout-fragment-length=16", "--hidden=16")
RUNS = {
    "ppo": ("ppo", "CartPole-v1", *SMALL, "--train-batch-size=128"),
    "dqn": ("dqn", "CartPole-v1", *SMALL, "--learning-starts=64", "--train-batch-size=16"),
    "apex": ("apex", "CartPole-v1", *SMALL, "--learning-starts=64", "--train-batch-size=16"),
    "lstm": ("impala", "CartPole-hidden-velocity", *SMALL, "--model=lstm", "--lstm-size=8"),
    "shared": ("ppo", "MultiAgentCartPole", *SMALL, "--train-batch-size=128"),
    "each": ("ppo", "MultiAgentCartPole", *SMALL, "--train-batch-size=128", "--policies=each"),
}


def returns(call: Any, run: Path, *more: str) -> tuple[Any, str]:
    """What a policy gets in three episodes, and what was said about it."""
    done = call("evaluate", str(run), "--episodes", "3", "--json", *more)
    assert done.code == 0, done.err
    return json.loads(done.out), done.err


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_without_a_policy_plays_its_newest_checkpoint(call: Any, kind: str) -> None:
    """The last checkpoint of a run that ended holds the policy that it saved, to the bit."""
    flags = ("--engine=sim", "--num-workers=1", "--until=steps=700", "--quiet", "--name=run")
    assert call("train", *RUNS[kind], *flags).code == 0
    run = Path("runs/run")
    expected, said = returns(call, run)
    several = kind in ("shared", "each")
    final = run / ("policies" if several else "policy.npz")
    steps = int(said.split(", ")[1].split(" ")[0])
    assert said == f"policy: {final}, {steps:,} steps\n"
    shutil.rmtree(final) if several else final.unlink()
    found, said = returns(call, run)
    assert found == expected
    told = f"the newest checkpoint of {run}, {steps:,} steps: it has saved no policy yet"
    assert said == f"policy: {told}\n"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A run that came to its end, to be changed."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_a_run_that_went_on_plays_what_is_newer(call: Any, run: Path) -> None:
    """Its saved policy is older than its checkpoints, and they play otherwise."""
    old = (run / "policy.npz").read_bytes()
    before, _ = returns(call, run)
    assert call("resume", str(run), "--until", "steps=20000", "--quiet").code == 0
    after, _ = returns(call, run)
    assert after != before
    (run / "policy.npz").write_bytes(old)  # as if it had been killed before it saved the new one
    found, said = returns(call, run)
    assert found == after
    assert "its saved policy is older" in said


def test_a_damaged_checkpoint_is_passed_over(call: Any, run: Path) -> None:
    assert call("resume", str(run), "--until", "steps=8000", "--quiet").code == 0
    (run / "policy.npz").unlink()
    newest = max((run / "checkpoints").glob("*-*"))
    (newest / "state.json").write_text("{}")
    _, said = returns(call, run)
    assert f"note: passed over {newest.name}" in said
    assert "the newest checkpoint of" in said


def test_a_run_trained_on_a_gpu_plays_without_one(call: Any, run: Path) -> None:
    (run / "policy.npz").unlink()
    about = json.loads((run / "run.json").read_text())
    about["config"]["num_gpus"] = 8
    (run / "run.json").write_text(json.dumps(about))
    assert returns(call, run)[1].startswith("policy: the newest checkpoint")


def test_a_checkpoint_of_another_network_is_told(call: Any, run: Path) -> None:
    """Before a network as large as run.json says takes any memory."""
    (run / "policy.npz").unlink()
    about = json.loads((run / "run.json").read_text())
    about["config"]["hidden"] = [10**6, 10**6]
    (run / "run.json").write_text(json.dumps(about))
    done = call("evaluate", str(run))
    assert done.code == 2
    assert "these weights belong to another network" in done.err


def test_a_run_that_has_saved_nothing_says_so(call: Any, run: Path) -> None:
    (run / "policy.npz").unlink()
    shutil.rmtree(run / "checkpoints")
    for command in ("evaluate", "record", "export"):
        done = call(command, str(run))
        assert done.code == 2
        assert "has no policy yet, and no checkpoint" in done.err
        assert done.err.count("\n") == 1


FAILS = """
import gymnasium

class Fails(gymnasium.Wrapper):
    steps = 0

    def step(self, action):
        Fails.steps += 1
        if Fails.steps > 1500:
            raise RuntimeError("the simulator has crashed")
        return super().step(action)

def make():
    return Fails(gymnasium.make("CartPole-v1"))
"""


def test_a_run_that_failed_plays_what_it_had_learned(rillflow: Any, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILS)
    flags = ("--until", "steps=9000", "--checkpoint-steps", "300", "--name", "run")
    failed = rillflow("train", "ppo", "failing:make", *QUICK, *flags)
    assert failed.code == 1
    assert "the simulator has crashed" in failed.err
    done = rillflow("evaluate", "runs/run", "--episodes", "2", "--trust", "failing:make")
    assert done.code == 0, done.err
    assert "policy: runs/run/policy.npz, " in done.err


@pytest.fixture
def training(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run that goes on until it is killed, and saves all the time."""
    words = ["train", "ppo", "CartPole-v1", *QUICK, "--until", "seconds=600"]
    words += ["--checkpoint-steps", "500", "--name", "run", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rillflow", *words], cwd=tmp_path, env=environment()
    )
    until = time.monotonic() + PATIENCE
    while not [*tmp_path.glob("runs/run/checkpoints/[0-9]*/manifest.json")]:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    yield process
    process.kill()
    process.wait()


@pytest.mark.proc
def test_every_verb_works_while_a_run_goes_on_and_after_it_was_killed(
    call: Any, training: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """Checkpoints come and go while they are read."""
    pytest.importorskip("PIL")
    run = tmp_path / "runs" / "run"
    for state in ("running", "killed"):
        for _ in range(5):
            _, said = returns(call, run)
            assert said.startswith(f"policy: {run}/policy.npz, ")
        done = call("record", str(run), "-o", f"{state}.gif", "--max-steps", "5")
        assert (done.code, done.out) == (0, f"{state}.gif\n")
        assert call("list", "runs").code == 0
        assert call("plot", str(run), "-y", "policy_loss").code == 0
        if training.poll() is None:
            training.send_signal(signal.SIGKILL)
            training.wait()
