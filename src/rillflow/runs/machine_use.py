"""machine.jsonl: what a run takes of its machine over time, a line every few seconds.

time             seconds since 1970
cpu              cores that the processes of the run keep busy: the driver, and all that it started
memory           bytes that they hold: what is their own, and once what they share
machine_cpu      cores that are busy, whoever does it, of `cores`
machine_memory   bytes that are not available any more, of `memory_total`
gpu, gpu_memory  per cent and bytes of all GPUs together, of `gpu_memory_total`, if there are any

Workers of a cluster on other machines are not in it. A sample reads /proc, in about a millisecond.
Lines come every two seconds at first, and then at most so often that they are a five hundredth of
the run's time apart: the file of a run of any length stays small.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rillflow.files import to_json

_FIRST = 2.0
_SHARE = 1 / 500
_GPU_SECONDS = 3.0
_PROCESSES = 4096


class MachineUse:
    """Appends a sample to a file when one is due; a system that does not tell has no file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin = self._last = time.monotonic()
        self._cores = len(os.sched_getaffinity(0))
        self._ticks = float(os.sysconf("SC_CLK_TCK"))
        self._before: dict[int, int] = _times(os.getpid())
        self._machine_before = _machine_times()
        self._gpu = Gpu()
        self.written = 0

    def due(self) -> bool:
        """Whether it is time for the next."""
        now = time.monotonic()
        return now - self._last >= max(_FIRST, _SHARE * (now - self._begin))

    def write(self) -> dict[str, Any]:
        """One line, which is given back too; a disk that is full costs the line."""
        told = self.sample()
        self.written += 1
        with suppress(OSError), self.path.open("a", encoding="utf-8") as file:
            file.write(to_json(told) + "\n")
        return told

    def sample(self) -> dict[str, Any]:
        """What was used since the last, and is held now."""
        now = time.monotonic()
        passed = max(now - self._last, 1e-3)
        times, busy = _times(os.getpid()), _machine_times()
        used = sum(ticks - self._before.get(pid, 0) for pid, ticks in times.items())
        told: dict[str, Any] = {
            "time": round(time.time(), 2),
            "cpu": round(max(0, used) / self._ticks / passed, 3),
            "memory": _memory(list(times)),
            "machine_cpu": round(max(0, busy - self._machine_before) / self._ticks / passed, 3),
            "cores": self._cores,
            **_machine_memory(),
            **self._gpu.sample(),
        }
        self._last, self._before, self._machine_before = now, times, busy
        return told


class Gpu:
    """All GPUs, as `nvidia-smi` tells; asked no more once it has failed."""

    def __init__(self) -> None:
        there = Path("/proc/driver/nvidia/version").exists()
        self._program = shutil.which("nvidia-smi") if there else None

    def sample(self) -> dict[str, Any]:
        """Their use; empty if there are none."""
        if self._program is None:
            return {}
        query = "--query-gpu=utilization.gpu,memory.used,memory.total"
        try:
            done = subprocess.run(
                [self._program, query, "--format=csv,noheader,nounits"],
                capture_output=True, text=True, timeout=_GPU_SECONDS, check=True,
            )  # fmt: skip
            return parsed(done.stdout)
        except (OSError, ValueError, subprocess.SubprocessError):
            self._program = None
            return {}


def parsed(text: str) -> dict[str, Any]:
    """Lines of `nvidia-smi` as one sample.

    >>> parsed("50, 1024, 2048\\n100, 0, 2048\\n")
    {'gpu': 75.0, 'gpu_memory': 1073741824, 'gpu_memory_total': 4294967296}
    """
    rows = [[float(part) for part in line.split(",")] for line in text.splitlines() if line]
    if not rows:
        return {}
    use, held, total = (sum(column) for column in zip(*rows, strict=True))
    return {
        "gpu": round(use / len(rows), 1),
        "gpu_memory": int(held) << 20,
        "gpu_memory_total": int(total) << 20,
    }


def _times(root: int) -> dict[int, int]:
    """Ticks of the processor that each process of a tree has used."""
    found: dict[int, int] = {}
    left = [root]
    while left and len(found) < _PROCESSES:
        pid = left.pop()
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
            fields = stat.rpartition(")")[2].split()
            found[pid] = int(fields[11]) + int(fields[12])
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile
        left += [child for child in _children(pid) if child not in found]
    return found


def _children(pid: int) -> Iterator[int]:
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError, ValueError):
            yield from map(int, path.read_text().split())


def _memory(pids: list[int]) -> int | None:
    """Bytes of some processes: pages that they share count once."""
    own = shared = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            sizes = {line.partition(":")[0]: line.split()[1] for line in lines if " kB" in line}
            own += int(sizes.get("RssAnon", sizes.get("VmRSS", 0)))
            shared = max(shared, int(sizes.get("RssShmem", 0)) + int(sizes.get("RssFile", 0)))
    return (own + shared) * 1024 if own else None


def _machine_times() -> int:
    """Ticks in which some core was busy."""
    try:
        first = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    except OSError:
        return 0
    ticks = [int(part) for part in first[:8]]
    return sum(ticks) - sum(ticks[3:5])  # idle, and waiting for a disk


def _machine_memory() -> dict[str, int]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        total = sizes["MemTotal"]
        return {"machine_memory": total - sizes["MemAvailable"], "memory_total": total}
    except (OSError, ValueError, IndexError, KeyError):
        return {}
