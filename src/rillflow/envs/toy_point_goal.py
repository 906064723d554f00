"""A family of tasks for meta-learning: walk to a goal that is not shown.

Only the reward tells where the goal is, so one policy for all tasks can do no better than stay
near their middle, and one that adapts from a few episodes can walk straight there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box

from rillflow.envs.toy_base import Array, Bools, ToyVector

Goal = npt.NDArray[np.float32]


class PointGoal(ToyVector):
    """A point in the plane starts at (0, 0) and moves by at most `speed` per axis and step.

    Sees its position; is paid minus its distance to the goal; is cut after `limit` steps.
    """

    saved = ("position", "goal")

    def __init__(
        self,
        num_envs: int,
        goal: Sequence[float] | Goal = (1.0, 0.0),
        speed: float = 0.2,
        limit: int = 20,
    ) -> None:
        free = Box(-np.inf, np.inf, (2,), np.float32)
        super().__init__(num_envs, free, Box(-1.0, 1.0, (2,), np.float32), limit)
        self.position = np.zeros((num_envs, 2), np.float32)
        self.speed = speed
        self.set_task(goal)

    def set_task(self, goal: Sequence[float] | Goal) -> None:
        """Move the goal; takes effect at once, so reset afterwards."""
        self.goal = np.asarray(goal, np.float32).reshape(2)

    def get_task(self) -> Goal:
        """Where the goal is."""
        return self.goal.copy()

    def sample_tasks(self, count: int, seed: int) -> list[Goal]:
        """As `sample_goals`: what a meta-learner asks an environment for."""
        return sample_goals(count, seed)

    def begin(self, rows: Bools) -> None:
        """Every episode starts in the middle."""
        self.position[rows] = 0.0

    def observe(self) -> Array:
        """The position."""
        return self.position.copy()

    def advance(self, actions: Array) -> tuple[Array, Bools]:
        """Move, and pay for what is left."""
        self.position += self.speed * np.clip(actions, -1.0, 1.0).astype(np.float32)
        distance: Any = np.linalg.norm(self.position - self.goal, axis=1)
        return -distance, np.zeros(self.num_envs, bool)


def sample_goals(count: int, seed: int, radius: float = 1.0) -> list[Goal]:
    """Goals on a circle around the start: equally far, in every direction."""
    angles = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi, count)
    return [np.array([np.cos(a), np.sin(a)], np.float32) * np.float32(radius) for a in angles]
