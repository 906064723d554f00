"""Environments in which some actions are forbidden: whoever takes one gets an error."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from rillflow.envs.toy_base import ToyVector

LENGTH = 7
"""steps of an episode, each of which pays 1 for the action that is shown"""


class Gate(gymnasium.Env[Any, Any]):
    """Shows one of the allowed actions, which pays 1; a forbidden one raises.

    Args:
        inside: whether the mask is in the observation; else it is in the info.
        size: actions.
    """

    def __init__(self, inside: bool = True, size: int = 5) -> None:
        self.inside, self.size = inside, size
        seen = Box(0, 1, (size,), np.float32)
        both = {"observation": seen, "action_mask": MultiBinary(size)}
        self.observation_space = Dict(both) if inside else seen
        self.action_space: Any = Discrete(size)

    def _look(self, over: bool = False) -> tuple[Any, dict[str, Any]]:
        """The observation and the info of a step; when it is over nothing is allowed."""
        self.mask = (self.np_random.random(self.size) < 0.4).astype(np.int8)
        self.mask[self.np_random.integers(self.size)] = 1
        self.prize = int(self.np_random.choice(np.flatnonzero(self.mask)))
        seen = np.eye(self.size, dtype=np.float32)[self.prize]
        if self.inside:
            return {"observation": seen, "action_mask": self.mask * (not over)}, {}
        return seen, {} if over else {"action_mask": self.mask}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._look()

    def step(self, action: Any) -> Any:
        if not self.mask[action]:
            raise ValueError(f"action {action} is forbidden by {self.mask}")
        self.time += 1
        reward = float(action == self.prize)
        seen, info = self._look(over := self.time == LENGTH)
        return seen, reward, over, False, info


class Beside(Gate):
    """The mask is in the info."""

    def __init__(self) -> None:
        super().__init__(inside=False)


class Tasks(Gate):
    """A family of one task, for meta-learning."""

    def sample_tasks(self, count: int, seed: int) -> list[int]:
        return [0] * count

    def set_task(self, task: Any) -> None:
        pass


class Pairs(gymnasium.Env[Any, Any]):
    """Two choices with a mask for each, one after the other; the first allowed of each pays."""

    action_space = MultiDiscrete([2, 3])
    observation_space = Dict(
        {"observation": Box(0, 1, (5,), np.float32), "action_mask": MultiBinary(5)}
    )

    def _look(self) -> Any:
        mask = np.zeros(5, np.int8)
        mask[[self.np_random.integers(2), 2 + self.np_random.integers(3)]] = 1
        mask |= (self.np_random.random(5) < 0.4).astype(np.int8)
        self.first = np.array([mask[:2].argmax(), mask[2:].argmax()])
        self.mask = mask
        return {"observation": mask.astype(np.float32), "action_mask": mask}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._look(), {}

    def step(self, action: Any) -> Any:
        if not (self.mask[action[0]] and self.mask[2 + action[1]]):
            raise ValueError(f"action {action} is forbidden by {self.mask}")
        self.time += 1
        reward = float((np.asarray(action) == self.first).sum())
        return self._look(), reward, False, self.time == LENGTH, {}


class GateVector(ToyVector):
    """A whole vector of gates, which can be saved and goes on exactly."""

    saved = ("masks", "prizes")

    def __init__(self, num_envs: int, size: int = 5) -> None:
        seen = {"observation": Box(0, 1, (size,), np.float32), "action_mask": MultiBinary(size)}
        super().__init__(num_envs, Dict(seen), Discrete(size))
        self.size = size
        self.masks = np.zeros((num_envs, size), np.int8)
        self.prizes = np.zeros(num_envs, np.int64)

    def begin(self, rows: Any) -> None:
        """New masks where an episode begins."""
        count, every = int(rows.sum()), np.arange(int(rows.sum()))
        masks = (self.np_random.random((count, self.size)) < 0.4).astype(np.int8)
        masks[every, self.np_random.integers(self.size, size=count)] = 1
        self.masks[rows] = masks
        self.prizes[rows] = (masks * self.np_random.random(masks.shape)).argmax(1)

    def observe(self) -> Any:
        """The prize, and what is allowed."""
        seen = np.eye(self.size, dtype=np.float32)[self.prizes]
        return {"observation": seen, "action_mask": self.masks.copy()}

    def advance(self, actions: Any) -> Any:
        """1 for the prize; an error for what is forbidden."""
        if not self.masks[np.arange(self.num_envs), actions].all():
            raise ValueError(f"actions {actions} are forbidden by {self.masks}")
        rewards = (actions == self.prizes).astype(np.float32)
        self.begin(np.ones(self.num_envs, bool))
        return rewards, self.time >= LENGTH
