"""What the process tests ask of the operating system."""

from __future__ import annotations

import os
import time

import psutil


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def gone_within(pids: list[int], seconds: float) -> bool:
    """Wait until none of the processes is left."""
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def children() -> set[int]:
    """Live descendants of this process."""
    return {p.pid for p in psutil.Process().children(recursive=True) if alive(p.pid)}


def shared_memory() -> set[str]:
    """Named segments of shared memory on this machine."""
    return set(os.listdir("/dev/shm"))


def cpu_seconds(pids: list[int]) -> float:
    """Processor time used so far by these processes."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return float(sum(t.user + t.system for t in times))
