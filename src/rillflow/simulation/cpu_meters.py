"""Clocks of processes and of the machine: who used the processors while a flow was measured."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from rillflow.types import Header

_READ_EVERY = 0.05
"""seconds between two looks at a process's times: often enough, and too rare to disturb"""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Meter:
    """Processor time of one worker process, read when it has just answered."""

    pid: int
    group: str
    cpu: float = 0.0
    delay: float = 0.0
    """seconds it wanted a processor and did not get one"""
    service_cpu: float = 0.0
    """processor time inside its requests"""
    service_wait: float = 0.0
    messages: int = 0
    _first: tuple[float, float] | None = None
    _due: float = 0.0
    _pending: tuple[float, float, int] = (0.0, 0.0, 0)
    """since the last reading: processor time and waiting in requests, messages"""

    def answered(self, header: Header, now: float) -> None:
        """The process has answered, so it is idle or just beginning with something else."""
        cpu, wait, messages = self._pending
        self._pending = cpu + header.cpu, wait + max(0.0, header.wall - header.cpu), messages + 1
        if now >= self._due:
            self._due = now + _READ_EVERY
            self._read()

    def told(self) -> None:
        """It was sent a message."""
        cpu, wait, messages = self._pending
        self._pending = cpu, wait, messages + 1

    def _read(self) -> None:
        cpu, delay = schedstat(f"/proc/{self.pid}/schedstat")
        if self._first is None:
            self._first = cpu, delay
        else:
            self.cpu, self.delay = cpu - self._first[0], delay - self._first[1]
            self.service_cpu += self._pending[0]
            self.service_wait += self._pending[1]
            self.messages += self._pending[2]
        self._pending = 0.0, 0.0, 0


class Window:
    """The stretch of time that is measured, and what driver and machine used in it."""

    is_open = False
    until = latest = 0.0
    seconds = 0.0
    driver_cpu = 0.0
    driver_delay = 0.0
    others = 0.0
    """cores that other programs used meanwhile"""

    def open(self, seconds: float) -> None:
        """Begin; it ends after `seconds`, and in any case after ten times as long."""
        self.is_open = True
        self._began = time.perf_counter()
        self.until, self.latest = self._began + seconds, self._began + 10 * seconds
        self._driver = time.thread_time(), schedstat("/proc/thread-self/schedstat")[1]
        self._busy, self._own = machine_busy(), time.process_time()

    def close(self, workers: float) -> None:
        """End; `workers` is the processor time of the worker processes."""
        self.seconds = time.perf_counter() - self._began
        self.driver_cpu = time.thread_time() - self._driver[0]
        self.driver_delay = schedstat("/proc/thread-self/schedstat")[1] - self._driver[1]
        own = time.process_time() - self._own + workers
        self.others = max(0.0, machine_busy() - self._busy - own) / self.seconds


def schedstat(path: str) -> tuple[float, float]:
    """Seconds a thread has run, and seconds it was ready to run but another one did."""
    try:
        with open(path) as file:
            ran, delayed, *_ = file.read().split()
    except (OSError, ValueError):  # the process has ended, or the kernel does not count this
        return 0.0, 0.0
    return int(ran) * 1e-9, int(delayed) * 1e-9


def machine_busy() -> float:
    """Seconds all processors of this machine have worked, or were taken away by its host."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system + irq + softirq + steal) / _TICKS
