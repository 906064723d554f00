"""What a worker may take: seconds for a step of its environments, and memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from rillflow.errors import BuildError, Recycle
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.fault_settings import bytes_of
from rillflow.types import ActorInfo

_MIB = 2**20


class Limits:
    """The limits of one worker that has a process of its own; elsewhere there are none.

    Time is kept by the kernel: its alarm ends the process also where an environment is stuck in C
    and Python does not run. Memory is looked at after each rollout.
    """

    def __init__(self, config: AlgorithmConfig, info: ActorInfo) -> None:
        alone = config.num_workers > 0 and info.engine in ("local", "ray")
        self.seconds = (config.env_timeout or 0.0) if alone else 0.0
        self.memory = bytes_of(config.worker_memory) if alone else None
        self._rollouts = 0
        self._size = 0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, which ends the process if it does not return in time."""
        seconds, alarm, clock = self.seconds, signal.setitimer, signal.ITIMER_REAL
        if not seconds:
            return call

        def within(*arguments: Any) -> Any:
            alarm(clock, seconds)
            try:
                return call(*arguments)
            finally:
                alarm(clock, 0.0)

        return within

    def before_rollout(self) -> None:
        """Ask to be made anew, if the last rollout left the process too large.

        Raises:
            Recycle: it did.
        """
        if self.memory is not None and self._size > self.memory:
            raise Recycle(f"it uses {_shown(self._size)} of memory, with {self._allowed}")

    def after_rollout(self) -> None:
        """Look how large the process is."""
        if self.memory is None:
            return
        self._size = resident()
        self._rollouts += 1
        if self._rollouts == 1 and self._size > self.memory:
            raise BuildError(
                f"a worker uses {_shown(self._size)} after its first rollout, with {self._allowed}."
                " Allow more, or give a worker fewer environments."
            )

    @property
    def _allowed(self) -> str:
        return f"worker_memory={_shown(self.memory or 0)}"


def resident() -> int:
    """Bytes of memory that this process has now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _shown(size: int) -> str:
    return f"{size / _MIB:,.0f} MiB"
