"""A disk that is full: nothing that was there is damaged, it is told, and the run goes on later."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.checkpoint import read_checkpoint
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.directory import RunDirectory
from rillflow.runs.job import Outcome, run_job
from rillflow.runs.listeners import JsonlLogger, StatusWriter
from rillflow.runs.metrics_file import rows_in
from rillflow.runs.saved_job import resume_job
from tests.cli.conftest import QUICK, environment
from tests.runs.test_resume import directory_of, job


class Disk:
    """A file system of its own, with little room."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.filler = path / "filler"

    def fill(self) -> None:
        """Until nothing more goes in, not even a byte."""
        with self.filler.open("ab", buffering=0) as file:
            for size in (1 << 16, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue

    def empty(self) -> None:
        self.filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may make a small file system")
    yield Disk(path)
    subprocess.run(["umount", "-l", str(path)], check=True)


def run(
    disk: Disk, *, full: range, steps: int = 2000, every: int = 400
) -> tuple[RunDirectory, Outcome]:
    """A run that is saved every so many steps; the disk is full between two of its rows."""
    work = job("ppo", steps, env="CartPole-v1")
    directory = directory_of(work, disk.path, "run")
    seen = 0

    def on_row(row: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == full.start:
            disk.fill()
        if seen == full.stop:
            disk.empty()

    listeners = [JsonlLogger(directory.metrics), StatusWriter(directory.path / "status.json", 0.05)]
    with directory, Checkpointer(directory, seconds=None, steps=every) as checkpointer:
        return directory, run_job(
            work, listeners=listeners, checkpointer=checkpointer, on_row=on_row
        )


def go_on(directory: RunDirectory, steps: int) -> Outcome:
    with directory:
        return resume_job(
            directory, until={"steps": steps}, listeners=[JsonlLogger(directory.metrics)]
        )


def contents(directory: RunDirectory) -> dict[str, str]:
    """What a run goes on from, by the hashes of its files."""
    paths = [*directory.checkpoints.glob("0*/*"), directory.policy, directory.path / "run.json"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_a_disk_that_is_full_for_a_while_costs_nothing(disk: Disk) -> None:
    """No row of the run is lost, and it is saved when there is room again."""
    with pytest.warns(UserWarning, match="No space left") as told:
        directory, outcome = run(disk, full=range(4, 40), steps=8000, every=1500)
    texts = [str(one.message) for one in told]
    assert sum("metrics.jsonl cannot be written" in text for text in texts) == 1
    assert sum("the policy is not saved" in text for text in texts) >= 1
    assert sum("no checkpoint was saved" in text for text in texts) >= 1
    assert outcome.state == "finished"
    steps = [row["steps"] for row in rows_in(directory.metrics)]
    assert steps == [row["steps"] for row in outcome.trained.history]
    assert rf.load(directory.policy).weights.keys() == outcome.trained.weights.keys()
    assert go_on(directory, 8500).trained.history[-1]["steps"] >= 8500


def test_a_run_that_ends_on_a_full_disk_fails_and_goes_on_when_there_is_room(disk: Disk) -> None:
    """The error says what is missing; the checkpoints of before are whole."""
    with (
        pytest.warns(UserWarning, match="No space left"),
        pytest.raises(rf.RunError, match=r"policy is not saved.*No space.*no checkpoint was saved"),
    ):
        run(disk, full=range(8, 1000))
    directory = RunDirectory.open(disk.path / "run")
    before = contents(directory)
    assert len(before) > 3
    paths = list(directory.checkpoints.glob("0*"))
    assert [path for path in paths if not read_checkpoint(path).state] == []
    assert not list(directory.path.rglob(".tmp-*"))
    assert not list(directory.path.rglob("*.part"))
    with (
        pytest.warns(UserWarning, match="best policy is not saved.*No space left"),
        pytest.raises(rf.RunError, match="No space left"),
    ):
        go_on(directory, 2000)
    assert contents(directory) == before
    disk.empty()
    outcome = go_on(directory, 2500)
    assert outcome.trained.history[-1]["steps"] >= 2500
    steps = [row["steps"] for row in rows_in(directory.metrics)]
    assert steps == sorted(set(steps))


def test_a_disk_that_is_full_for_long_ends_the_run(disk: Disk) -> None:
    with (
        pytest.warns(UserWarning, match="No space left|lacks . rows"),
        pytest.raises(rf.RillflowError, match="no checkpoint was saved"),
    ):
        run(disk, full=range(8, 10_000), steps=20_000)
    disk.empty()
    assert go_on(RunDirectory.open(disk.path / "run"), 2500).state == "finished"


def test_a_run_that_cannot_begin_leaves_nothing(disk: Disk) -> None:
    disk.fill()
    with pytest.raises(rf.RunError, match=r"cannot write a run under .*No space left"):
        directory_of(job("ppo", 100), disk.path, "run")
    assert list(disk.path.iterdir()) == [disk.filler]


@pytest.mark.proc
def test_the_program_does_not_say_that_all_is_well(disk: Disk, tmp_path: Path) -> None:
    """Its exit code is not 0, and its last lines say why and where the policy is."""
    command = [sys.executable, "-m", "rillflow", "train", "ppo", "CartPole-v1", *QUICK, "--quiet",
               "--until", "steps=1500", "--run-dir", str(disk.path), "--name", "run"]  # fmt: skip
    with disk.filler.open("wb") as file:
        file.write(b"\0" * (4 * 2**20 - 160 * 1024))  # room to begin, and for no checkpoint
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    why, policy = done.stderr.splitlines()[-2:]
    assert "No space left" in why
    assert policy.endswith(str(disk.path / "run" / "policy.npz"))
    assert (disk.path / "run" / "policy.npz").exists()
