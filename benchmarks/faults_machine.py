"""How busy the machine is with others: limits in seconds are those of one that is not."""

from __future__ import annotations

import os
import time

PROBE = 0.1
"""seconds of work that are timed"""
MOST = 6.0
"""times as long that something is waited for, however busy the machine is"""


def busy() -> float:
    """How many times as long as alone work takes now, or took in the last minute; 1 at least."""
    wall, work = time.perf_counter(), time.thread_time()
    while time.thread_time() - work < PROBE:
        pass
    now = (time.perf_counter() - wall) / PROBE
    cores = len(os.sched_getaffinity(0))
    return min(MOST, max(1.0, now, os.getloadavg()[0] / cores))


def in_time(took: float, limit: float, *, strict: bool) -> bool:
    """Whether something came within its limit; unless `strict`, within what is fair now."""
    return took <= limit or (not strict and took <= limit * busy())


def over(began: float, patience: float) -> bool:
    """Whether to wait no longer for what was expected within `patience` seconds of `began`."""
    waited = time.monotonic() - began
    return waited > patience and waited > patience * busy()
