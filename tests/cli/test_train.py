"""`rillflow train`, from the command line to the run's directory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.cli.flags.trust import program
from rillflow.runs.directory import RunDirectory
from tests.cli.conftest import QUICK, environment
from tests.engines.processes import gone

_SHORT = ("train", "ppo", "CartPole-v1", *QUICK, "--until", "steps=1500")


def rows_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def test_a_run_fills_its_directory(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert names == {"run.json", "graph.json", "graph.svg", "metrics.jsonl", "status.json",
                     "policy.npz", "best_policy.npz", "curve.png", "checkpoints", "tensorboard",
                     "machine.jsonl", ".lock"}  # fmt: skip
    about = json.loads((finished / "run.json").read_text())
    assert (about["algorithm"], about["until"]) == ("ppo", {"steps": 4000})
    assert about["config"]["num_envs_per_worker"] == 8
    assert json.loads((finished / "graph.json").read_text())["nodes"]
    assert (finished / "graph.svg").read_text().startswith("<svg")
    assert json.loads((finished / "status.json").read_text())["state"] == "finished"
    trained = rf.load(finished / "policy.npz")
    assert len(trained.evaluate(2)) == 2
    metrics = rows_of((finished / "metrics.jsonl").read_text())
    assert len(trained.history) == len(metrics)


def test_without_a_terminal_there_are_plain_lines(call) -> None:
    done = call(*_SHORT)
    assert done.code == 0
    first, _, *lines = done.out.splitlines()
    assert first == "ppo on CartPole-v1, engine sim, seed 0, into runs/ppo-CartPole-v1-1"
    assert any("steps/s" in line for line in lines)
    assert "\x1b" not in done.out
    assert any("the limit of steps is reached: " in line for line in lines)
    assert "  policy  runs/ppo-CartPole-v1-1/policy.npz" in lines


def test_quiet_prints_where_the_run_is(call) -> None:
    done = call(*_SHORT, "--quiet")
    assert done.out == "runs/ppo-CartPole-v1-1\n"
    assert done.err == ""


def test_json_is_for_machines(call) -> None:
    start, *rows, end = rows_of(call(*_SHORT, "--json").out)
    assert (start["event"], start["algorithm"], start["seed"]) == ("start", "ppo", 0)
    assert {row["event"] for row in rows} == {"row"}
    assert 0 < rows[0]["episodes"] < 100
    assert rows[0]["return"] > 0  # the mean of those so far
    assert (end["event"], end["state"]) == ("end", "finished")
    assert Path(end["policy"]).is_file()


def test_the_seed_decides_on_sim(call) -> None:
    def curve(seed: str) -> list[Any]:
        rows = rows_of(call(*_SHORT, "--seed", seed, "--json").out)
        return [row["policy_loss"] for row in rows if row["event"] == "row"]

    assert curve("1") == curve("1") != curve("2")


def test_an_old_name_is_a_note_of_one_line(call) -> None:
    done = call("explain", "ppo", "Pendulum-v0")
    assert done.code == 0
    assert done.err == "note: environment 'Pendulum-v0' is an old name; using 'Pendulum-v1'\n"


def test_the_view_is_served_while_a_run_goes_on(call) -> None:
    start, *_ = rows_of(call(*_SHORT, "--view", "--json").out)
    assert start["view"].startswith("http://127.0.0.1:")


@pytest.mark.proc
def test_a_program_trains_on_processes_with_code_from_its_directory(rillflow, tmp_path) -> None:
    (tmp_path / "my_envs.py").write_text(
        "import gymnasium\n"
        "def make(length): return gymnasium.make('CartPole-v1', max_episode_steps=length)\n"
    )
    done = rillflow("train", "ppo", "my_envs:make", "--env-config", '{"length": 20}', "--until",
                    "steps=2000", "--num-workers", "1", "--json")  # fmt: skip
    assert done.code == 0, done.err
    start, *_, end = rows_of(done.out)
    assert start["engine"] == "local"
    assert 10 < end["row"]["return"] <= 20
    about = RunDirectory.open(tmp_path / "runs" / "ppo-my_envs-make-1").about
    assert about["config"]["env_config"] == {"length": 20}


# -- Ctrl-C -------------------------------------------------------------------------------------


class Background:
    """A training program, with its output in a file and its children known."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "runs" / "ppo-CartPole-v1-1"
        self.errors = folder / "errors"
        with self.errors.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rillflow", "train", "ppo", "CartPole-v1", "--num-workers",
                 "1", "--num-envs-per-worker", "8", "--until", "steps=1e9", "--quiet"],
                cwd=folder, env=environment(), stderr=err, stdout=err,
            )  # fmt: skip

    def wait_for_rows(self, count: int = 1) -> None:
        until = time.monotonic() + 60
        metrics = self.run / "metrics.jsonl"
        while time.monotonic() < until and self.process.poll() is None:
            if metrics.exists() and metrics.read_text().count("\n") >= count:
                return
            time.sleep(0.05)
        pytest.fail(f"no rows: {self.errors.read_text()}")

    def children(self) -> list[int]:
        """Once the status, which is written every second, has come to know them."""
        until, pids = time.monotonic() + 60, list[int]()
        while not pids and time.monotonic() < until:
            workers = RunDirectory(self.run).status["workers"]
            pids = [line["pid"] for line in workers if line["pid"]]
            time.sleep(0.01)
        assert pids
        return pids


@pytest.fixture
def background(tmp_path: Path):
    started = Background(tmp_path)
    yield started
    started.process.kill()
    started.process.wait()


@pytest.mark.proc
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_once_finishes_the_update_saves_and_stops(
    background: Background, number: int, code: int
) -> None:
    background.wait_for_rows(2)
    children = background.children()
    background.process.send_signal(number)
    assert background.process.wait(timeout=60) == code
    text = background.errors.read_text()
    assert "stopping after this update; Ctrl-C again stops now" in text
    assert "Traceback" not in text
    assert RunDirectory(background.run).status["state"] == "stopped"
    rows = rows_of((background.run / "metrics.jsonl").read_text())
    assert len(rf.load(background.run / "policy.npz").history) == len(rows)
    assert gone(children)


@pytest.mark.proc
def test_twice_stops_now(background: Background) -> None:
    background.wait_for_rows(1)
    children = background.children()
    background.process.send_signal(signal.SIGINT)
    while "again stops now" not in background.errors.read_text():
        assert background.process.poll() is None
        time.sleep(0.01)
    background.process.send_signal(signal.SIGINT)
    assert background.process.wait(timeout=60) == 130
    assert "Traceback" not in background.errors.read_text()
    assert gone(children)
    # the second one may have come when the update was done and the policy was being saved
    assert RunDirectory(background.run).status["state"] == "stopped"


@pytest.mark.proc
def test_before_the_first_update_once_stops_now_and_leaves_nothing(background: Background) -> None:
    until = time.monotonic() + 60
    while not (background.run / "status.json").exists() and time.monotonic() < until:
        time.sleep(0.01)
    background.process.send_signal(signal.SIGINT)
    code = background.process.wait(timeout=60)
    text = background.errors.read_text()
    assert code == 130, text
    assert "Traceback" not in text
    if "nothing was kept" in text:
        assert not background.run.exists()


@pytest.mark.proc
def test_a_second_run_in_the_same_directory_is_refused(background: Background, call) -> None:
    background.wait_for_rows(1)
    done = call("resume", str(background.run))
    assert done.code in (1, 2)
    assert done.err.count("\n") == 1


def test_settings_that_suit_the_environment_are_told(call) -> None:
    """But for those that a flag has changed."""
    flags = ("--until", "steps=1", "--engine", "sim", "--num-workers", "0", "--gamma", "0.95")
    done = call("train", "ppo", "Pendulum-v1", *flags)
    assert done.code == 0
    line = done.out.splitlines()[1]
    assert line.startswith("settings that suit it: ")
    assert "--activation relu" in line
    assert "gamma" not in line


@pytest.mark.proc
@pytest.mark.parametrize("children", [1, 3])
def test_ctrl_c_while_workers_start_prints_one_line(children: int, tmp_path: Path) -> None:
    """Also to the workers, as a terminal sends it: nobody tells of pipes or sockets."""
    import os

    import psutil

    process = subprocess.Popen(
        [sys.executable, "-m", "rillflow", "train", "apex", "--num-workers=3", "--plain", "--view"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        cwd=tmp_path, env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    program, ends = psutil.Process(process.pid), time.monotonic() + 60
    while len(program.children()) < children and time.monotonic() < ends:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1:] == ["stopped; nothing was kept"]
    assert not [line for line in errors.splitlines()[:-1] if not line.startswith("note: ")]
    assert not list((tmp_path / "runs").iterdir())


def test_what_libraries_warn_their_developers_of_is_no_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ray's processes that end with the run, for one."""
    import warnings

    from rillflow.cli.output.warnings_as_notes import notes_as_lines

    with notes_as_lines():
        for kind in (ResourceWarning, DeprecationWarning):
            warnings.warn("subprocess 1 is still running", kind, stacklevel=1)
        warnings.warn("mind this", stacklevel=1)
    assert capsys.readouterr().err == "note: mind this\n"


@pytest.mark.parametrize("found", [True, False])
def test_what_to_do_next_is_said_as_it_can_be_typed(
    found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name where the shell finds it, by its path in an environment that is not active."""
    script = tmp_path / "bin" / "rillflow"
    script.parent.mkdir()
    script.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(script), "train"])
    monkeypatch.setenv("PATH", str(script.parent) if found else "/usr/bin")
    assert program() == ("rillflow" if found else str(script))
