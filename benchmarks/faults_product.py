"""The command line under test: started, watched line by line with the time of each, and hurt."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults_machine import MOST, over

HERE = Path(__file__).parent
ENV = "faults_env:Faulty"
SMALL = ("--num-workers=2", "--num-envs-per-worker=8", "--rollout-fragment-length=32")
PATIENCE = 60.0
"""seconds after which something that should have happened counts as never, if nobody else works"""


class Never(AssertionError):  # noqa: N818 - what it is
    """What was waited for did not happen."""


def environment(**more: str) -> dict[str, str]:
    """This checkout's product, and the environments beside this file."""
    paths = [str(HERE.parent / "src"), str(HERE), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def rillflow(
    *words: str, cwd: Path, timeout: float = 120.0 * MOST
) -> subprocess.CompletedProcess[str]:
    """One command, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "rillflow", *words],
        cwd=cwd, env=environment(), capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


class Product:
    """One `rillflow` that trains, in a directory of its own.

    Args:
        folder: where to run.
        words: of the command line; `train` gets a run directory `run`, and `--json`.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, self.run = folder, folder / "run"
        if words[0] == "train":
            words = (*words, "--run-dir", str(folder), "--name", "run")
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rillflow", *words, "--json"],
            cwd=folder, env=environment(), text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.rows: list[tuple[float, dict[str, Any]]] = []
        self.said: list[tuple[float, str]] = []
        """lines of the error output, and when they came"""
        self.pids: set[int] = set()
        self._readers = [
            threading.Thread(target=self._read_rows, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_rows(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if told["event"] == "row":
                self.rows.append((time.monotonic(), told))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append((time.monotonic(), line.rstrip()))

    # -- watching -------------------------------------------------------------------------------

    def until(self, happened: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """Look until it has happened."""
        began = time.monotonic()
        while not over(began, patience):
            found = happened()
            if found:
                return found
            if self.process.poll() is not None and not happened():
                raise Never(f"the run ended ({self.process.returncode}) before {what}: {self.text}")
            time.sleep(0.01)
        waited = time.monotonic() - began
        raise Never(f"{what} did not happen within {waited:.0f} s: {self.text}")

    def until_rows(self, count: int = 1, patience: float = PATIENCE) -> None:
        """So many more rows than now."""
        before = len(self.rows)
        self.until(lambda: len(self.rows) >= before + count, f"{count} rows", patience)

    def until_said(self, *words: str, since: float = 0.0) -> float:
        """When a line with these words came."""

        def found() -> float | None:
            lines = [when for when, line in self.said if when >= since and _has(line, words)]
            return lines[0] if lines else None

        return float(self.until(found, f"a line with {words}"))

    def until_steps(self, steps: float) -> None:
        """The run has come so far."""
        self.until(lambda: self.rows and self.rows[-1][1]["steps"] >= steps, f"{steps} steps")

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.said)[-2000:]

    def status(self) -> dict[str, Any]:
        """What `status.json` says; empty before there is one."""
        try:
            found: dict[str, Any] = json.loads((self.run / "status.json").read_text())
        except (OSError, ValueError):
            return {}
        self.pids |= {w["pid"] for w in found.get("workers", ()) if w["pid"]}
        return found

    def workers(self, group: str) -> dict[str, int]:
        """The processes of a group, once all of them have been named."""

        def found() -> dict[str, int] | None:
            own = [w for w in self.status().get("workers", ()) if w["group"] == group]
            pids = {w["name"]: w["pid"] for w in own if w["pid"] and _lives(w["pid"])}
            return pids if own and len(pids) == len(own) else None

        pids: dict[str, int] = self.until(found, f"{group} with processes")
        return pids

    def rate(self, seconds: float) -> float:
        """Steps a second from now on."""
        self.until_rows()
        when, row = self.rows[-1]
        self.until(lambda: self.rows[-1][0] >= when + seconds, f"rows of {seconds} s")
        later, last = self.rows[-1]
        return float(last["steps"] - row["steps"]) / (later - when)

    # -- hurting ---------------------------------------------------------------------------------

    def kill(self, group: str, number: int = signal.SIGKILL, which: int | None = None) -> float:
        """Hurt one process of a group; when it was done."""
        pids = self.workers(group)
        name = random.choice(sorted(pids)) if which is None else sorted(pids)[which]
        when = time.monotonic()
        os.kill(pids[name], number)
        return when

    def signal(self, number: int) -> float:
        """A signal to the product itself; when it was sent."""
        self.status()
        when = time.monotonic()
        self.process.send_signal(number)
        return when

    def end(self, patience: float = PATIENCE) -> int:
        """Its exit code, when it has ended by itself."""
        began = time.monotonic()
        while (code := self.process.poll()) is None:
            if over(began, patience):
                raise Never(f"the run did not end within {patience:.0f} s: {self.text}")
            time.sleep(0.01)
        for reader in self._readers:
            reader.join(5)
        return code

    def survivors(self, patience: float = 5.0) -> list[int]:
        """Processes of the run that are still there after a while."""
        began = time.monotonic()
        while (left := [pid for pid in self.pids if _lives(pid)]) and not over(began, patience):
            time.sleep(0.02)
        return left

    def close(self) -> None:
        """However it went, nothing stays behind."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join(5)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def __enter__(self) -> Product:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _has(line: str, words: tuple[str, ...]) -> bool:
    return all(word in line for word in words)


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def lives(pid: int) -> bool:
    """Whether a process is there, and not only its name."""
    return _lives(pid)


def goes_on(folder: Path, steps: int, *more: str, trust: bool = True) -> dict[str, Any]:
    """`evaluate` plays the newest policy of a run, and `resume` makes so many steps more.

    Raises:
        Never: one of them does not.
    """
    flags = ("--trust", ENV) if trust else ()
    played = rillflow("evaluate", "run", "--episodes", "2", *flags, cwd=folder)
    if played.returncode:
        raise Never(f"evaluate gave {played.returncode}: {played.stderr[-1500:]}")
    reached = last_step(folder)
    until = f"steps={reached + steps}"
    resumed = rillflow("resume", "run", "--until", until, "--quiet", *flags, *more, cwd=folder)
    if resumed.returncode:
        raise Never(f"resume gave {resumed.returncode}: {resumed.stderr[-1500:]}")
    if last_step(folder) < reached + steps:
        raise Never(f"resume went from {reached} to {last_step(folder)}")
    return {"from": reached, "to": last_step(folder)}


def last_step(folder: Path) -> int:
    """Of the metrics of a run; a line that was cut is none."""
    step = 0
    for line in (folder / "run" / "metrics.jsonl").read_text().splitlines():
        try:
            step = int(json.loads(line)["steps"])
        except (ValueError, KeyError, TypeError):
            continue
    return step
