"""`train --seeds`: several runs at a time, none of which can spoil the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rillflow.cli.flags.seeds import parse_seeds
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.side_by_side import Member, SideBySide, room_for, without
from tests.cli.conftest import QUICK, environment

PATIENCE = 90.0
pytestmark = pytest.mark.proc


def start(where: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rillflow", "train", *arguments],
        cwd=where, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_each_seed_has_its_run_and_they_are_told_together(tmp_path: Path) -> None:
    process = start(tmp_path, "ppo", "CartPole-v1", *QUICK, "--until", "steps=2000",
                    "--seeds", "3-4", "--name", "mine", "--label", "short")  # fmt: skip
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert "2 of 2 seeds came to their end" in out
    assert "95% in [" in out
    for seed in (3, 4):
        about = json.loads((tmp_path / "runs" / f"mine-{seed}" / "run.json").read_text())
        assert (about["seed"], about["label"]) == (seed, "short")
        assert (tmp_path / "runs" / f"mine-{seed}" / "policy.npz").exists()
        assert f"runs/mine-{seed}" in out


def test_one_that_fails_does_not_lose_the_others(tmp_path: Path) -> None:
    """The directory of seed 1 is taken, so it cannot begin; seeds 0 and 2 do."""
    (tmp_path / "runs" / "mine-1").mkdir(parents=True)
    (tmp_path / "runs" / "mine-1" / "a-file").write_text("in the way")
    process = start(tmp_path, "ppo", "CartPole-v1", *QUICK, "--until", "steps=2000",
                    "--seeds", "0-2", "--jobs", "1", "--name", "mine", "--quiet")  # fmt: skip
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert out.split() == ["runs/mine-0", "runs/mine-2"]
    assert "seed 1 failed: " in err
    assert "exists and is not empty" in err
    for seed in (0, 2):
        assert (tmp_path / "runs" / f"mine-{seed}" / "policy.npz").exists()


def test_ctrl_c_ends_all_with_everything_saved(tmp_path: Path) -> None:
    process = start(tmp_path, "ppo", "CartPole-v1", *QUICK, "--until", "steps=1000M",
                    "--seeds", "0-3", "--jobs", "2", "--json")  # fmt: skip
    seen: set[str] = set()
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "row":
            seen.add(event["of"])
        if len(seen) == 2:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
    ends = [json.loads(line) for line in out.splitlines()]
    ended = {e["of"]: e for e in ends if e["event"] == "end"}
    assert {name: event["state"] for name, event in ended.items()} == dict.fromkeys(seen, "stopped")
    runs = sorted((tmp_path / "runs").iterdir())
    assert len(runs) == 2, "the others never began"
    for run in runs:
        assert (run / "policy.npz").exists()
        assert list((run / "checkpoints").iterdir())
    assert not _processes(str(tmp_path)), "and nothing is left"


def _processes(word: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(path) == word:
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_mistakes_are_told_once_before_anything_begins(call: Any, tmp_path: Path) -> None:
    for arguments, message in [
        (["--seeds", "0-x"], "--seeds are numbers and ranges"),
        (["--seeds", "4-1"], "ends before it begins"),
        (["--seeds", "0-1", "--seed", "3"], "give one of them"),
        (["--jobs", "3"], "--jobs is about the runs of --seeds"),
        (["--seeds", "0-1", "--lr", "x"], "lr must be a number"),
        (["--seeds", "0-1", "--train-batch-size", "0"], "train_batch_size"),
    ]:
        done = call("train", "ppo", "CartPole-v1", *arguments)
        assert (done.code, done.err.count("\n")) == (2, 1), done
        assert message in done.err
    assert not (tmp_path / "runs").exists()


def test_seeds_are_ranges_and_numbers() -> None:
    assert parse_seeds("0-4") == [0, 1, 2, 3, 4]
    assert parse_seeds("7, 3,3-5") == [7, 3, 4, 5]
    with pytest.raises(Usage, match="more than 1000"):
        parse_seeds("0-99999999999")


def test_room_is_counted_in_processes() -> None:
    cores = len(os.sched_getaffinity(0))
    assert room_for("sim", 8) == cores
    assert room_for("local", cores) == 1
    assert room_for("local", 1) == max(1, cores // 2)


def test_flags_are_taken_out_in_both_forms() -> None:
    given = ["ppo", "--view", "--seeds=1", "--view_port", "3", "--until", "steps=1"]
    assert without(given, {"--view": 0, "--seeds": 1, "--view-port": 1}) == [
        "ppo", "--until", "steps=1",
    ]  # fmt: skip


def test_a_process_that_is_killed_is_told_as_failed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", environment())
    member = Member("seed 0", ["ppo", "CartPole-v1", *QUICK, "--until", "steps=1000M"])

    def hear(one: Member, event: dict[str, Any]) -> None:
        if event["event"] == "row" and one.process is not None:
            os.kill(one.process.pid, signal.SIGKILL)

    begin = time.monotonic()
    with SideBySide(1, hear) as runs:
        runs.run(iter([member]))
    assert (member.state, member.failure) == ("failed", "killed by SIGKILL")
    assert time.monotonic() - begin < PATIENCE


def test_runs_are_compared_with_an_interval(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.results.test_plots import line, write

    for lr in (1, 3):
        for seed in range(3):
            write(tmp_path / "runs" / f"{lr}-{seed}", line(lr + seed / 10, 200), seed=seed,
                  config={"lr": lr})  # fmt: skip
    done = call("compare", "runs")
    assert (done.code, done.err) == (0, "")
    assert "A  ppo lr=1, 3 seeds" in done.out
    assert "lr  1 -> 3" in done.out
    assert "return at 200 steps" in done.out
    assert "B is higher" in done.out
    assert "too narrow; take 5" in done.out
    monkeypatch.setattr("rillflow.cli.commands.compare.columns", lambda: 40)
    narrow = call("compare", "runs").out
    assert max(map(len, narrow.splitlines())) <= 40
    wholes = "A 220.0, B 620.0, B - A +400.0", "95% in [", "B is higher", "return at 200 steps"
    for whole in wholes:
        assert whole in narrow, narrow
    (one,) = json.loads(call("compare", "runs", "--json").out)
    assert one["figures"][0]["difference"] == pytest.approx(400)
    low, high = one["figures"][0]["interval"]
    assert low < 400 < high
    assert call("compare", "runs/1-0", "runs/1-1", "--episodes", "0").out.count("one run") == 2
    assert "nothing to compare it with" in call("compare", "runs/1-0").err
    done = call("compare", "runs/1-0", "runs/3-0")
    assert "no episodes could be played" in done.err
    assert "One run says nothing of other seeds" in done.out


def test_single_runs_are_told_apart_by_their_episodes(call: Any, finished: Path) -> None:
    """The same policy twice: nothing is decided, and it is said what was played."""
    done = call("compare", str(finished), str(finished) + "/", "--label", "a", "--label", "b")
    assert done.code == 0, done.err
    assert "return of 30 and 30 greedy episodes" in done.out
    assert "undecided" in done.out
    assert "not the settings that made them" in done.out


def test_ctrl_c_while_modules_are_loaded_prints_no_traceback(tmp_path: Path) -> None:
    """The runs have begun as processes, and none has said anything yet."""
    process = start(tmp_path, "ppo", "CartPole-v1", *QUICK, "--until", "steps=1000M",
                    "--seeds", "0-3", "--jobs", "2", "--plain")  # fmt: skip
    assert process.stdout is not None
    try:
        assert "4 seeds" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.terminate()  # if it still goes on
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert "0 of 4 seeds came to their end" in out


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's death")
def test_runs_end_and_are_saved_when_who_began_them_is_killed(tmp_path: Path) -> None:
    process = start(tmp_path, "ppo", "CartPole-v1", *QUICK, "--until", "steps=1000M",
                    "--seeds", "0-1", "--jobs", "2", "--json")  # fmt: skip
    seen: set[str] = set()
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        seen |= {event["of"]} if event["event"] == "row" else set()
        if len(seen) == 2:
            break
    process.kill()
    process.communicate()
    end = time.monotonic() + PATIENCE
    while _processes(str(tmp_path)):
        assert time.monotonic() < end, "they go on"
        time.sleep(0.1)
    for run in (tmp_path / "runs").iterdir():
        assert (run / "policy.npz").exists()
        assert json.loads((run / "status.json").read_text())["state"] == "stopped"
