"""Saves a checkpoint again and again, and dies at the first, second, third, ... file operation.

    python crash_child.py DIRECTORY MODE...

A process without threads, which forks one child for each operation of a save. After each death a
new store looks for the newest checkpoint; what it found is printed as JSON, a row
for each death, by mode.

    kill    SIGKILL before the operation
    torn    SIGKILL in the middle of it: half of a write
    power   the machine stops before the operation: data and names that were not synced are lost
    data    as `power`, but names survive, and only data that was not synced is lost
    liar    as `power`, on a disk that promises to have synced and has not
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from rillflow.checkpoint import CheckpointStore
from rillflow.checkpoint.errors import CheckpointError
from tests.checkpoint.states import example, same

OPERATIONS = "open write pwrite ftruncate fsync mkdir rename replace unlink rmdir"
REAL = {name: getattr(os, name) for name in OPERATIONS.split()}


class Disk:
    """Counts operations on files, knows what is not yet safe, and strikes at the n-th."""

    def __init__(self, strike_at: int, mode: str) -> None:
        self.left = strike_at
        self.mode = mode
        self.unsynced_data: set[str] = set()
        self.unsynced_names: list[tuple[str, str]] = []
        """(old name or "", new name), in the order of the operations"""
        for name in REAL:
            setattr(os, name, getattr(self, name))

    def count(self, name: str) -> bool:
        """Whether the operation is to be torn."""
        self.left -= 1
        if self.left == 0 and self.mode == "torn" and name == "write":
            return True
        if self.left == 0:
            self.strike()
        return False

    def strike(self) -> None:
        if self.mode in ("power", "data", "liar"):
            self.lose()
        os.kill(os.getpid(), signal.SIGKILL)

    def lose(self) -> None:
        for path in self.unsynced_data:
            if os.path.exists(path):
                os.truncate(path, 0)
        if self.mode == "data":
            return
        for old, new in reversed(self.unsynced_names):
            if not os.path.exists(new):
                continue
            if old:
                REAL["rename"](new, old)
            elif os.path.isdir(new):
                shutil.rmtree(new)
            else:
                REAL["unlink"](new)

    # -- the operations

    def open(self, path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if not flags & os.O_CREAT:
            return REAL["open"](path, flags, *args, **kwargs)
        self.count("open")
        if not os.path.exists(path):
            self.unsynced_names.append(("", str(path)))
        return REAL["open"](path, flags, *args, **kwargs)

    def write(self, descriptor: int, data: Any) -> int:
        torn = self.count("write")
        self.unsynced_data.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        if torn:
            REAL["write"](descriptor, data[: len(data) // 2])
            self.strike()
        return REAL["write"](descriptor, data)

    def pwrite(self, *args: Any) -> int:
        self.count("pwrite")
        return REAL["pwrite"](*args)

    def ftruncate(self, *args: Any) -> None:
        self.count("ftruncate")
        REAL["ftruncate"](*args)

    def fsync(self, descriptor: int) -> None:
        self.count("fsync")
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        REAL["fsync"](descriptor)
        if self.mode == "liar":
            return
        self.unsynced_data.discard(path)
        if os.path.isdir(path):
            self.unsynced_names = [
                (old, new) for old, new in self.unsynced_names if os.path.dirname(new) != path
            ]

    def mkdir(self, path: Any, *args: Any, **kwargs: Any) -> None:
        self.count("mkdir")
        REAL["mkdir"](path, *args, **kwargs)
        self.unsynced_names.append(("", str(path)))

    def rename(self, old: Any, new: Any) -> None:
        self.count("rename")
        REAL["rename"](old, new)
        self.moved(str(old), str(new))

    def replace(self, old: Any, new: Any) -> None:
        self.count("replace")
        REAL["replace"](old, new)
        self.moved(str(old), str(new))

    def moved(self, old: str, new: str) -> None:
        def now(path: str) -> str:
            return new + path.removeprefix(old) if path.startswith(old) else path

        self.unsynced_data = {now(path) for path in self.unsynced_data}
        self.unsynced_names = [(a, now(b)) for a, b in self.unsynced_names if now(b) != new]
        self.unsynced_names.append((old, new))

    def unlink(self, *args: Any, **kwargs: Any) -> None:
        self.count("unlink")
        REAL["unlink"](*args, **kwargs)

    def rmdir(self, *args: Any, **kwargs: Any) -> None:
        self.count("rmdir")
        REAL["rmdir"](*args, **kwargs)


def save(directory: Path, n: int, mode: str) -> bool:
    """Save in a process that is struck at the n-th operation; whether it came to its end."""
    pid = os.fork()
    if pid == 0:
        disk = Disk(n, mode)
        with CheckpointStore(directory, keep=2) as store:
            store.save(step=3, state=[3, example()])
            if mode in ("power", "data", "liar"):
                disk.lose()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return False
    if status != 0:
        raise SystemExit(f"the child ended with {status}")
    return True


def look(directory: Path) -> dict[str, Any]:
    """What a new store finds."""
    notes: list[str] = []
    try:
        with CheckpointStore(directory, on_note=notes.append) as store:
            newest = store.newest()
    except CheckpointError as error:
        return {"error": str(error)}
    assert newest is not None
    return {
        "step": newest.step,
        "whole": same(newest.state, [newest.step, example()]),
        "notes": notes,
        "left": sorted(path.name for path in directory.iterdir() if path.name[:5] == ".tmp-"),
    }


def deaths(root: Path, base: Path, mode: str) -> list[dict[str, Any]]:
    rows = []
    for n in itertools.count(1):
        directory = root / f"{mode}-{n}"
        shutil.copytree(base, directory)
        finished = save(directory, n, mode)
        rows.append({"n": n, "finished": finished, **look(directory)})
        shutil.rmtree(directory)
        if finished:
            break
    return rows


def main(root: Path, modes: list[str]) -> None:
    base = root / "base"
    with CheckpointStore(base, keep=2) as store:
        for step in (1, 2):
            store.save(step=step, state=[step, example()])
    print(json.dumps({mode: deaths(root, base, mode) for mode in modes}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
