"""Run drivers, ours and the peers', each in a fresh process and in an environment of its own.

A driver is a script in `peers/` that prints one line of JSON. Nothing it starts outlives it: all
its processes carry a mark in their environment, and what is left of them at the end is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _common import Report

HERE = Path(__file__).parent
VENVS = Path(os.environ.get("PEERS_VENVS") or Path.home() / ".cache" / "peers")
OURS = "rillflow"
_MARK = "RILLFLOW_BENCH_RUN"
_QUIET = {
    "PYTHONWARNINGS": "ignore",
    "PYTHONUNBUFFERED": "1",
    "TQDM_DISABLE": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE", "token"),
}
_BLAS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class DriverError(Exception):
    """A driver that gave no result, and why."""


@dataclass(frozen=True)
class Driver:
    """A script of `peers/` with its arguments."""

    who: str
    """rillflow, or the name of a peer and of its virtual environment"""
    file: str
    arguments: dict[str, Any] = field(default_factory=dict)
    limit: float = 120.0
    """seconds after which it is killed, start included"""
    memory: bool = False
    """whether to sample the memory of all its processes; that slows them down a little"""

    def run(self, **more: Any) -> dict[str, Any]:
        """What it prints; `peak_mb` is added if memory is sampled.

        Raises:
            DriverError: it could not be started, ended without a result, or took too long.
        """
        python = interpreter(self.who)
        arguments = {**self.arguments, **more}
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in arguments.items()]
        command = [str(python), str(HERE / "peers" / self.file), *flags]
        mark = uuid.uuid4().hex
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            with out.open("wb") as stdout, err.open("wb") as stderr:
                began = time.time()
                process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env={**_environment(self.who), _MARK: mark, "PEER_T0": repr(began)},
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                )
                watch = _MemoryWatch(mark) if self.memory else None
                try:
                    process.wait(self.limit)
                except subprocess.TimeoutExpired:
                    pass
                finally:
                    peak = watch.stop() if watch else None
                    clear(mark)
                    code = process.wait()
            result = _result(out.read_text(errors="replace"))
            if result is None:
                raise DriverError(_reason(self, code, time.time() - began, out, err))
        return result if peak is None else {**result, "peak_mb": round(peak / 2**20, 1)}


def interpreter(who: str) -> Path:
    """The Python of a peer; its environment is made the first time."""
    if who == OURS:
        return Path(sys.executable)
    python = VENVS / who / "bin" / "python"
    if not (VENVS / who / ".ok").exists():
        print(f"installing {who} into {VENVS / who}", file=sys.stderr, flush=True)
        made = subprocess.run(
            [str(HERE / "peers" / "venvs.sh"), who],
            env={**os.environ, "PEERS_VENVS": str(VENVS), "PY": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
        if not (VENVS / who / ".ok").exists():
            raise DriverError(f"cannot be installed: {(made.stdout + made.stderr).strip()[-400:]}")
    return python


def _environment(who: str) -> dict[str, str]:
    """Peers get one BLAS thread a process, which is best for them; ours has to see to it itself."""
    env = {name: value for name, value in os.environ.items() if name not in _BLAS}
    if who == OURS:
        paths = [str(HERE.parent / "src"), env.get("PYTHONPATH", "")]
        return {**env, **_QUIET, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    env.pop("PYTHONPATH", None)
    return {**env, **_QUIET, **dict.fromkeys(_BLAS, "1")}


def _result(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        if line.startswith('{"peer"'):
            with contextlib.suppress(json.JSONDecodeError):
                found: dict[str, Any] = json.loads(line)
                return found
    return None


def _reason(driver: Driver, code: int, took: float, out: Path, err: Path) -> str:
    if took >= driver.limit:
        return f"{driver.file}: no result within {driver.limit:g} s"
    said = (err.read_text(errors="replace") or out.read_text(errors="replace")).strip()
    return f"{driver.file}: exit code {code}: {said[-400:]}"


def marked(mark: str) -> list[int]:
    """The processes of one run, wherever they are in the tree."""
    wanted, found = f"{_MARK}={mark}".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or it is somebody else's
            if wanted in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def clear(mark: str) -> None:
    """End whatever is left of a run."""
    deadline = time.monotonic() + 10
    while (left := marked(mark)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


class _MemoryWatch:
    """The largest sum of the proportional set sizes of a run's processes."""

    INTERVAL = 0.05

    def __init__(self, mark: str) -> None:
        self.mark, self.peak = mark, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(self.INTERVAL):
            self.peak = max(self.peak, sum(map(pss, marked(self.mark))))

    def stop(self) -> int:
        self._ended.set()
        self._thread.join()
        return self.peak


def pss(pid: int) -> int:
    """The memory of a process in bytes, shared pages counted in proportion; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def measure(report: Report, case: str, driver: Driver, round_: int, **more: Any) -> dict[str, Any]:
    """Run a driver and keep what it says; a failure is kept as well."""
    print(f"  {case}, round {round_ + 1}", file=sys.stderr, flush=True)
    try:
        found = driver.run(**more)
    except DriverError as failure:
        report.lacks(case, str(failure))
        return report.measured(case, round=round_, failed=str(failure))
    if driver.who != OURS and "version" in found:
        report.versions[driver.who] = found["version"]
    return report.measured(case, round=round_, **found)


def rounds(report: Report, drivers: dict[str, Driver], seeds: bool = True) -> None:
    """All cases in turn, as often as asked; backwards every second time.

    With `seeds`, round n has seed n + 1 on every side. A case that failed is not tried again.
    """
    for round_ in range(report.options.repeats):
        cases = [case for case in drivers if case not in report.missing]
        for case in cases if round_ % 2 == 0 else reversed(cases):
            more = {"seed": round_ + 1} if seeds else {}
            measure(report, case, drivers[case], round_, **more)


def peers_of(report: Report, usual: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The peers that were asked for, or the usual ones; one without a driver is missing."""
    wanted = usual if report.options.peers is None else report.options.peers
    for peer in wanted:
        if peer not in known:
            report.lacks(peer, f"there is no driver for it here, only for {', '.join(known)}")
    return tuple(peer for peer in wanted if peer in known)
