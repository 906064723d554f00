"""A game on small boolean planes whose best and random returns are known."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

ROWS = 10


class Catch(gymnasium.Env[Any, Any]):
    """A ball falls straight down; a paddle on the lowest row catches it for 1, or not for -1.

    Planes are [ROWS, COLUMNS, 2]: the ball, the paddle. A policy that does not look catches about
    one ball in `columns`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as Gymnasium has it

    def __init__(self, columns: int = 10, render_mode: str | None = None) -> None:
        self.columns, self.render_mode = columns, render_mode
        self.observation_space = Box(0, 1, (ROWS, columns, 2), np.bool_)
        self.action_space = Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.row, self.ball = 0, int(self.np_random.integers(self.columns))
        self.paddle = int(self.np_random.integers(self.columns))
        return self._planes(), {}

    def step(self, action: Any) -> Any:
        self.row += 1
        self.paddle = min(max(self.paddle + int(action) - 1, 0), self.columns - 1)
        over = self.row == ROWS - 1
        reward = float(over) * (1.0 if self.ball == self.paddle else -1.0)
        return self._planes(), reward, over, False, {}

    def _planes(self) -> Any:
        planes = np.zeros(self.observation_space.shape, np.bool_)
        planes[self.row, self.ball, 0] = planes[-1, self.paddle, 1] = True
        return planes

    def render(self) -> Any:
        colours = np.zeros((ROWS, self.columns, 3), np.uint8)
        colours[..., :2] = 255 * self._planes()
        return colours

    # all there is to go on from

    def get_state(self) -> Any:
        return [self.row, self.ball, self.paddle, self.np_random.bit_generator.state]

    def set_state(self, state: Any) -> None:
        self.row, self.ball, self.paddle, self.np_random.bit_generator.state = state
