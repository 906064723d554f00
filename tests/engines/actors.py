"""Actors for the process tests; importable, so that any worker process can find them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import Any

import rillflow as rf


class Counter:
    """Counts; says who it is, what weights it had, and in which process it lives."""

    def __init__(self, info: rf.ActorInfo, pause: float = 0.0) -> None:
        self.info = info
        self.pause = pause
        self.n = 0
        self.weights = 0

    def next(self) -> dict[str, Any]:
        if self.pause:
            time.sleep(self.pause)
        self.n += 1
        return {
            "actor": self.info.name,
            "incarnation": self.info.incarnation,
            "n": self.n,
            "weights": self.weights,
            "pid": os.getpid(),
        }

    def set_weights(self, weights: int) -> None:
        self.weights = weights


class Stuck(Counter):
    """The first of the group answers once and never again; the others go on."""

    def next(self) -> dict[str, Any]:
        if self.n and not self.info.index:
            time.sleep(1000)
        return super().next()


class FailsInConstructor:
    def __init__(self) -> None:
        raise LookupError("no such environment: 'Pong-v99'")

    def next(self) -> int:
        return 1


class FailsWhenAsked:
    """Raises in its constructor once something else has been sent to its process, unread."""

    def __init__(self) -> None:
        with socket.socket(fileno=os.dup(int(sys.argv[1]))) as orders:
            orders.recv(1, socket.MSG_PEEK)
        raise LookupError("no such environment: 'Pong-v99'")

    def next(self) -> int:
        return 1


class Stops:
    """User code that lets a StopIteration escape."""

    def next(self) -> int:
        return next(iter(()))


class Sleeper:
    """Never answers in time, and starts a child that outlives it unless its group is killed."""

    def __init__(self, seconds: float = 1000.0) -> None:
        self.seconds = seconds
        self.child = subprocess.Popen(["sleep", "1000"])

    def next(self) -> int:
        time.sleep(self.seconds)
        return self.child.pid

    def child_pid(self) -> int:
        return self.child.pid


class Talker:
    def next(self) -> int:
        print("hello from inside")
        return 1
