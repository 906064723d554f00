"""CartPole with faults of every kind, for `faults.py`: after some steps, or when a file appears."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np


class Faulty(gymnasium.Wrapper):  # type: ignore[type-arg]
    """One environment that fails as it is told.

    Args:
        fault: raise, sleep, busy, pause, leak, obs, reward, shape, child, init, reset.
        after: steps of this copy before the fault can happen.
        chance: of the fault in each step from then on.
        token: a file; only the copy that removes it has the fault, once. Empty: every copy has it.
        resets: that raise after the fault, each.
        log: a file to which the process ids of a child and of this process are added.
    """

    def __init__(
        self,
        fault: str = "raise",
        after: int = 0,
        chance: float = 1.0,
        token: str = "",
        resets: int = 0,
        log: str = "",
    ) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        if fault == "init":
            raise RuntimeError("no licence for the simulator")
        self.fault, self.after, self.chance, self.token = fault, after, chance, token
        self.resets, self.log, self.steps, self.broken = resets, log, 0, 0
        self.leaked: list[Any] = []
        self.rng = np.random.default_rng(os.getpid() * 1000 + id(self) % 997)
        if fault == "child":
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            child = subprocess.Popen(["sleep", "60"], **quiet)
            with open(log, "a") as file:
                file.write(f"{child.pid} {os.getpid()}\n")

    def reset(self, **how: Any) -> Any:
        if self.broken:
            self.broken -= 1
            raise OSError("the simulator does not start")
        return self.env.reset(**how)

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.fault == "leak":
            self.leaked.append(np.ones(1 << 17))  # a MiB
            time.sleep(0.005)  # slowly enough to be watched
        elif self.steps > self.after and self.rng.random() < self.chance and self._mine():
            return self._fail(action)
        return self.env.step(action)

    def _mine(self) -> bool:
        if not self.token:
            return True
        try:
            os.unlink(self.token)
        except OSError:
            return False
        return True

    def _fail(self, action: Any) -> Any:
        if self.fault == "raise":
            self.broken = self.resets
            raise ValueError("the simulator broke")
        if self.fault == "sleep":
            time.sleep(1e6)
        if self.fault == "busy":
            while True:
                pass
        if self.fault == "pause":
            signal.pause()
        obs, reward, *rest = self.env.step(action)
        if self.fault == "obs":
            obs = np.full_like(obs, np.nan)
        if self.fault == "shape":
            obs = obs[:3]
        if self.fault == "reward":
            reward = float("nan")
        return obs, reward, *rest


def poisoned(m: Any, rows: Any, cfg: Any) -> Any:
    """PPO's update, whose loss is not a number in every twentieth call."""
    from rillflow.algorithms import ppo

    global _calls
    _calls += 1
    poison = float("nan") if _calls % 20 == 0 else 1.0
    for step in ppo.update(m, rows, cfg):
        yield replace(step, loss=step.loss * poison)


def raising(m: Any, rows: Any, cfg: Any) -> Any:
    """PPO's update, which raises in its two-hundredth call."""
    from rillflow.algorithms import ppo

    global _calls
    _calls += 1
    if _calls == 200:
        raise ZeroDivisionError("in the loss")
    yield from ppo.update(m, rows, cfg)


_calls = 0
