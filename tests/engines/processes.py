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


PATIENCE = 30.0
"""seconds that a busy machine may take for what an idle one does at once"""


def gone(pids: list[int], seconds: float = PATIENCE) -> bool:
    """Wait until none of the processes is left; whether that came true in time."""
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


def no_more_shared_memory(than: set[str], seconds: float = PATIENCE) -> bool:
    """Wait until no segment is left but those; one of somebody else may come and go meanwhile."""
    deadline = time.monotonic() + seconds
    while shared_memory() - than:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def cpu_seconds(pids: list[int]) -> float:
    """Processor time used so far by these processes, to the nanosecond."""
    # the clock of another process, as clock_getcpuclockid(3) numbers it
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)
