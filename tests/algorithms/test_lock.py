"""Several choices at once: a lock whose digits open one after another, each by its own number."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, MultiDiscrete

import rillflow as rf
from rillflow.results import evaluate

DIGITS, NUMBERS, LIMIT = 4, 5, 30
CODE = (3, 0, 4, 2)


class Lock(gymnasium.Env[Any, Any]):
    """Every step costs 1, and opens a digit if its number is right: the best return is -4.

    A policy that presses at random needs 20 steps, and 5 of a digit's numbers look alike until one
    of them was right.
    """

    observation_space = Box(0, 1, (DIGITS + 1,), np.float32)
    action_space = MultiDiscrete([NUMBERS] * DIGITS)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.time = self.opened = 0
        return self._look(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        self.opened += int(action[self.opened] == CODE[self.opened])
        done = self.opened == DIGITS
        return self._look(), -1.0, done, self.time == LIMIT and not done, {}

    def _look(self) -> Any:
        return np.eye(DIGITS + 1, dtype=np.float32)[self.opened]


def test_ppo_finds_every_digit_of_a_lock() -> None:
    trained = rf.train("ppo", Lock, until={"steps": 16_000}, engine="sim", seed=1, num_workers=2)
    assert evaluate(trained, episodes=10).mean == -DIGITS
