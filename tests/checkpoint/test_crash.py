"""A process may die, or the disk fill up, at any moment of a save: a whole checkpoint is found."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rillflow.checkpoint import CheckpointNotSaved, CheckpointStore, newest_checkpoint
from tests.checkpoint.states import example, same

pytestmark = pytest.mark.proc

ROOT = Path(__file__).parents[2]
MODES = ["kill", "torn", "power", "data", "liar"]


@pytest.fixture(scope="module")
def deaths():
    """What was found after a death at each operation of a save, by manner of death."""
    # in memory where there is such a directory: what counts is the order, not how long it takes
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        command = [sys.executable, "-m", "tests.checkpoint.crash_child", folder, *MODES]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("mode", ["kill", "torn", "power", "data"])
def test_a_whole_checkpoint_is_found_after_a_death_at_any_operation(deaths, mode):
    """The one before or the new one, nothing else; the new one at the end; and nothing is left."""
    rows = deaths[mode]
    assert len(rows) > 20
    found = [row.get("step") for row in rows]
    assert set(found) == {2, 3}, rows
    assert found == sorted(found)
    assert rows[-1]["finished"]
    assert found[-1] == 3
    for row in rows:
        assert row["whole"], row
        assert (row["notes"], row["left"]) == ([], []), row


def test_these_tests_notice_a_disk_that_does_not_sync(deaths):
    """The same deaths on a disk that ignores fsync: what was saved is not there."""
    assert deaths["liar"][-1]["finished"]
    assert deaths["liar"][-1].get("step") != 3


def listing(directory):
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*"))


OPERATIONS = ("open", "write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir")


class FailingDisk:
    """The n-th operation on a file fails; a write after half of its bytes, as on a full disk."""

    def __init__(self, patch, fails_at, reason):
        self.left, self.reason = fails_at, reason
        for name in OPERATIONS:
            patch.setattr(os, name, self.counted(name, getattr(os, name)))

    def counted(self, name, real):
        def operation(*args, **kwargs):
            if name != "open" or args[1] & os.O_CREAT:
                self.left -= 1
                if self.left == 0:
                    if name == "write":
                        real(args[0], args[1][: len(args[1]) // 2])
                    raise OSError(self.reason, os.strerror(self.reason))
            return real(*args, **kwargs)

        return operation


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
def test_an_operation_that_fails_leaves_everything_as_it_was(tmp_path, monkeypatch, reason):
    """Each operation of a save in turn: it raises and leaves nothing, or the save succeeded."""
    errors, saved = [], 0
    with CheckpointStore(tmp_path, keep=2, on_note=lambda note: None) as store:
        for step in (1, 2):
            store.save(step=step, state=[step, example()])
        expected, untouched = 2, False
        for step in range(3, 100):
            before = listing(tmp_path)
            with monkeypatch.context() as patch:
                disk = FailingDisk(patch, step - 2, reason)
                try:
                    store.save(step=step, state=[step, example()])
                except CheckpointNotSaved as error:
                    errors.append(error)
                    untouched = listing(tmp_path) == before
                else:
                    expected, saved, untouched = step, saved + 1, True
            newest = newest_checkpoint(tmp_path)
            assert untouched, f"at operation {step - 2}"
            assert newest.step == expected
            assert same(newest.state, [expected, example()])
            if disk.left > 0:
                break
    assert len(errors) > 10
    assert saved > 3
    assert all(error.error.errno == reason for error in errors)
    assert all("Older checkpoints are untouched" in str(error) for error in errors)


def test_a_limit_on_the_size_of_files(tmp_path):
    """A real refusal by the system, in the middle of a file."""
    with CheckpointStore(tmp_path) as store:
        store.save(step=1, state=1)
        before = listing(tmp_path)
        old = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, old[1]))
        try:
            with pytest.raises(CheckpointNotSaved, match="File too large; it takes 1,000,0"):
                store.save(step=2, state=b"x" * 1_000_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
        assert listing(tmp_path) == before
        assert store.save(step=2, state=b"x" * 1_000_000)


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    with CheckpointStore(tmp_path) as store:
        store.save(step=1, state=1)
        before = listing(tmp_path)

        def interrupted(descriptor):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.save(step=2, state=2)
        assert listing(tmp_path) == before


def test_a_disk_that_gives_back_other_bytes_is_noticed_at_once(tmp_path, monkeypatch):
    real = os.write

    def flip(descriptor, data):
        changed = bytearray(data)
        changed[len(changed) // 2] ^= 1
        return real(descriptor, bytes(changed))

    with CheckpointStore(tmp_path) as store:
        store.save(step=1, state=1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", flip)
            with pytest.raises(CheckpointNotSaved, match="gave back other bytes"):
                store.save(step=2, state=list(range(100)))
        assert store.newest().state == 1


WRITER = """
import sys, numpy as np
from rillflow.checkpoint import CheckpointStore
with CheckpointStore(sys.argv[1], keep=2) as store:
    newest = store.newest()
    step = 0 if newest is None else newest.step
    while True:
        step += 1
        store.save(step=step, state={"step": step, "array": np.full(100_000, step)})
        print(step, flush=True)
"""


def test_kill_minus_nine_of_a_real_writer(tmp_path):
    """Again and again: what it said was saved is there, and the next writer goes on from it."""
    said = 0
    for round_ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            for _ in range(3 + round_):
                said = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            said = int((["", *writer.stdout.read().split()][-1]) or said)
        newest = newest_checkpoint(tmp_path)
        assert newest.notes == ()
        assert newest.step in (said, said + 1)
        assert (newest.state["array"] == newest.step).all()
        assert len(list(tmp_path.glob("0*"))) in (1, 2, 3)
