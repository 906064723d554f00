"""A policy with the memory of some environments: explorers act with it as with any other."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from rillflow.policies.explorers import Columns, Exploring
from rillflow.policies.sampling import Array, Floats


class Remembering:
    """What acts in a row of environments and remembers what each of them showed.

    In one step an explorer may ask it several things, or nothing: the memory moves on once, by
    what was seen.

    Args:
        policy: a `TorchPolicy` that remembers.
        count: how many environments.
        keep: the states before so many of the last steps are kept.
    """

    def __init__(self, policy: Any, count: int, keep: int = 0) -> None:
        self.policy = policy
        self.state: Floats = policy.initial_state(count)
        """what is known of each environment before the next observation, [B, *state_shape]"""
        self.rng: np.random.Generator = policy.rng
        self.recent: deque[Floats] = deque(maxlen=keep)
        """the states before the last steps"""
        self._starts: Array = np.ones(count, bool)
        self._after: Floats | None = None

    def step(
        self, exploring: Exploring, obs: Array, starts: Array
    ) -> tuple[Array, Floats, Columns]:
        """As `exploring.act`, with a column `starts`; what was seen is remembered."""
        self._starts, self._after = starts, None
        actions, logp, more = exploring.act(self, obs, starts)
        self.recent.append(self.state)
        if self._after is None:  # steps at random look at nothing, and are remembered all the same
            self.greedy(obs)
        self.move_on(starts)
        return actions, logp, {"starts": starts, **more}

    def move_on(self, starts: Array) -> None:
        """What was seen last is remembered; `starts`: where the next observation is a first one."""
        if self._after is not None:
            self.state, self._after = self._after, None
        self._starts = starts

    def act(
        self, obs: Array, epsilon: float | Floats = 0.0, rng: np.random.Generator | None = None
    ) -> tuple[Array, Floats]:
        """Actions drawn, and their log-probabilities."""
        actions, logp, self._after = self.policy.act_recurrent(
            obs, self.state, self._starts, epsilon, rng
        )
        return actions, logp

    def greedy(self, obs: Array) -> Array:
        """The best actions."""
        actions: Array
        actions, self._after = self.policy.greedy_recurrent(obs, self.state, self._starts)
        return actions

    def outputs(self, obs: Array) -> Floats:
        """Logits, means or q values [B, width]."""
        outputs: Floats
        outputs, self._after = self.policy.outputs_recurrent(obs, self.state, self._starts)
        return outputs
