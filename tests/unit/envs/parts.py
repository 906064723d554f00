"""Environments with scripted results, well-behaved and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple


class Counting(gymnasium.Env[Any, Any]):
    """Observes (episode, time); ends after 2, 3, 4, 2, 3, ... steps, cut every second time."""

    def __init__(self) -> None:
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = Discrete(5)
        self.episode, self.time = -1, 0

    def _observe(self) -> Any:
        return np.array([self.episode, self.time], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode, self.time = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        ended = self.time == 2 + self.episode % 3
        cut = self.episode % 2 == 1
        reward = 10.0 * self.episode + self.time
        return self._observe(), reward, ended and not cut, ended and cut, {}


class Everything(gymnasium.Env[Any, Any]):
    """Observations of every kind in one; the action space is given."""

    def __init__(self, action_space: Space[Any] | None = None) -> None:
        self.observation_space = Dict(
            {
                "box": Box(-1, 1, (2, 2), np.float64),
                "pick": Discrete(3, start=5),
                "picks": MultiDiscrete([2, 3]),
                "bits": MultiBinary(2),
                "pair": Tuple((Box(0, 255, (2,), np.uint8), Discrete(2))),
            }
        )
        self.action_space = Discrete(2) if action_space is None else action_space
        self.taken: list[Any] = []

    def _observe(self) -> Any:
        return {
            "box": np.arange(4.0).reshape(2, 2),
            "pick": 6,
            "picks": np.array([1, 2]),
            "bits": np.array([0, 1], np.int8),
            "pair": (np.array([7, 8], np.uint8), 1),
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.taken.append(action)
        return self._observe(), 0.0, False, False, {}


OK_OBS = np.zeros(2, np.float32)


class Scripted(gymnasium.Env[Any, Any]):
    """Returns whatever it is told, to break one promise at a time."""

    def __init__(
        self,
        reset: Callable[[], Any] = lambda: (OK_OBS, {}),
        step: Callable[[int], Any] = lambda t: (OK_OBS, 1.0, False, False, {}),
        space: Space[Any] | None = None,
    ) -> None:
        self.observation_space = space or Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = Discrete(2)
        self._reset, self._step, self.time = reset, step, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._reset()

    def step(self, action: Any) -> Any:
        self.time += 1
        return self._step(self.time)
