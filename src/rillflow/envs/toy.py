"""Tiny environments with known answers, for tests that learn in seconds.

Bandit                    one step; the last of `arms` pays 1, the others less
Identity                  act what you see; best return `length`, by chance `length / size`
Corridor                  the first observation says what to do at the end: needs memory
RepeatPast                do what was shown `delay` steps ago: needs memory at every step
ConstantReward            1 forever, cut after `limit` steps: every value is 1 / (1 - gamma)
HiddenVelocityCartPole    CartPole without its velocities: needs memory
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.spaces import Box, Discrete
from gymnasium.vector.utils import batch_space

from rillflow.envs.state import cartpole_state, set_cartpole
from rillflow.envs.toy_base import Array, Bools, ToyVector


class Bandit(ToyVector):
    """One step and over: arm `i` pays `i / (arms - 1)`, so the last is best and pays 1."""

    def __init__(self, num_envs: int, arms: int = 4) -> None:
        super().__init__(num_envs, Box(0.0, 1.0, (1,), np.float32), Discrete(arms))
        self.pay = np.linspace(0.0, 1.0, arms)

    def observe(self) -> Array:
        """Nothing to see."""
        return np.ones((self.num_envs, 1), np.float32)

    def advance(self, actions: Array) -> tuple[Array, Bools]:
        """The pay of each arm pulled."""
        return self.pay[actions], np.ones(self.num_envs, bool)


class Identity(ToyVector):
    """Shows a one-hot vector; the action that names it pays 1, any other 0."""

    saved = ("shown",)

    def __init__(self, num_envs: int, size: int = 4, length: int = 10) -> None:
        super().__init__(num_envs, Box(0.0, 1.0, (size,), np.float32), Discrete(size))
        self.size, self.length = size, length
        self.shown = np.zeros(num_envs, np.int64)

    def begin(self, rows: Bools) -> None:
        """A new vector where an episode begins."""
        self.shown[rows] = self.np_random.integers(self.size, size=int(rows.sum()))

    def observe(self) -> Array:
        """The vector shown."""
        return np.eye(self.size, dtype=np.float32)[self.shown]

    def advance(self, actions: Array) -> tuple[Array, Bools]:
        """Pay, and show another."""
        rewards = (actions == self.shown).astype(np.float32)
        self.shown = self.np_random.integers(self.size, size=self.num_envs)
        return rewards, self.time >= self.length


class Corridor(ToyVector):
    """`length` steps; only the first observation shows which of two actions pays at the last.

    Sees (cue 0, cue 1, at the end). With memory the best return is 1, without it 0 on average.
    """

    saved = ("cue",)

    def __init__(self, num_envs: int, length: int = 6) -> None:
        super().__init__(num_envs, Box(0.0, 1.0, (3,), np.float32), Discrete(2))
        self.length = length
        self.cue = np.zeros(num_envs, np.int64)

    def begin(self, rows: Bools) -> None:
        """Draw the cue."""
        self.cue[rows] = self.np_random.integers(2, size=int(rows.sum()))

    def observe(self) -> Array:
        """The cue at the first step only."""
        seen = np.zeros((self.num_envs, 3), np.float32)
        rows = np.flatnonzero(self.time == 0)
        seen[rows, self.cue[rows]] = 1.0
        seen[:, 2] = self.time == self.length - 1
        return seen

    def advance(self, actions: Array) -> tuple[Array, Bools]:
        """1 for the action the cue named, -1 for the other, at the last step."""
        last = self.time == self.length
        return np.where(last, np.where(actions == self.cue, 1.0, -1.0), 0.0), last


class RepeatPast(ToyVector):
    """Shows one of `size` things at each step; to do what was shown `delay` steps ago pays 1.

    The first `delay` steps pay nothing. The best return is `length - delay`, by chance it is
    `(length - delay) / size`.
    """

    saved = ("shown",)

    def __init__(self, num_envs: int, size: int = 4, delay: int = 2, length: int = 20) -> None:
        super().__init__(num_envs, Box(0.0, 1.0, (size,), np.float32), Discrete(size))
        self.size, self.delay, self.length = size, delay, length
        self.shown = np.zeros((delay + 1, num_envs), np.int64)
        """what is shown now, before it what was shown a step ago, and so on"""

    def begin(self, rows: Bools) -> None:
        """Something to see where an episode begins."""
        self.shown[0, rows] = self.np_random.integers(self.size, size=int(rows.sum()))

    def observe(self) -> Array:
        """What is shown now."""
        seen: Array = np.eye(self.size, dtype=np.float32)[self.shown[0]]
        return seen

    def advance(self, actions: Array) -> tuple[Array, Bools]:
        """Pay, and show the next."""
        rewards = (actions == self.shown[self.delay]) & (self.time > self.delay)
        new = self.np_random.integers(self.size, size=self.num_envs)
        self.shown = np.concatenate([new[None], self.shown[:-1]])
        return rewards.astype(np.float32), self.time >= self.length


class ConstantReward(ToyVector):
    """Pays 1 at every step, never ends, is cut after `limit` steps.

    Whoever takes the cut for an end learns a value below `1 / (1 - gamma)`.
    """

    def __init__(self, num_envs: int, limit: int = 10) -> None:
        super().__init__(num_envs, Box(0.0, 1.0, (1,), np.float32), Discrete(2), limit)

    def observe(self) -> Array:
        """Always the same: the value cannot depend on the time."""
        return np.ones((self.num_envs, 1), np.float32)

    def advance(self, actions: Array) -> tuple[Array, Bools]:
        """1, and on."""
        return np.ones(self.num_envs, np.float32), np.zeros(self.num_envs, bool)


class HiddenVelocityCartPole(CartPoleVectorEnv):
    """Gymnasium's native vector CartPole that shows positions only (cart, pole)."""

    def __init__(self, num_envs: int = 1, max_episode_steps: int = 500) -> None:
        super().__init__(num_envs, max_episode_steps)
        full: Any = self.single_observation_space
        self.single_observation_space = Box(full.low[::2], full.high[::2], dtype=np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """As CartPole's, seen in part."""
        obs, info = super().reset(seed=seed, options=options)
        return obs[:, ::2], info

    def step(self, action: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """As CartPole's, seen in part."""
        obs, rewards, terminated, truncated, info = super().step(action)
        return obs[:, ::2], rewards, terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        """All that the future depends on."""
        return cartpole_state(self)

    def set_state(self, state: dict[str, Any]) -> None:
        """The reverse of `get_state`."""
        set_cartpole(self, state)
