"""RepeatAfterMe, as RLlib's release tests have it: repeat what was seen some steps ago."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class RepeatAfterMe(gymnasium.Env[Any, Any]):
    """A hundred steps; each shows a bit, or two numbers, to be repeated `delay` steps later.

    A bit that is repeated pays 1, any other -1; numbers cost their distances. What lies before the
    first step is 0.
    """

    length = 100

    def __init__(self, delay: int = 1, continuous: bool = False) -> None:
        self.delay, self.continuous = delay, continuous
        space: Any = Box(-1.0, 1.0, (2,), np.float32) if continuous else Discrete(2)
        self.observation_space = self.action_space = space
        self.shown: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Nothing was shown before."""
        super().reset(seed=seed)
        nothing = np.zeros(2, np.float32) if self.continuous else 0
        self.shown = [nothing] * self.delay
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pay, and show the next."""
        wanted = self.shown[-1 - self.delay]
        if self.continuous:
            reward = -float(np.abs(np.asarray(action) - wanted).sum())
        else:
            reward = 1.0 if action == wanted else -1.0
        over = len(self.shown) - self.delay >= self.length
        return self._show(), reward, over, False, {}

    def _show(self) -> Any:
        if self.continuous:
            shown: Any = self.np_random.random(2).astype(np.float32)
        else:
            shown = int(self.np_random.integers(2))
        self.shown.append(shown)
        return shown
