"""Policies to look at: some trained for a moment, some not at all, and environments for them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rillflow.algorithms import get_algorithm
from rillflow.envs import make_envs
from rillflow.policies.make import first_weights
from rillflow.runs.train import Trained


def untrained(env: Any, algorithm: str = "ppo", seed: int = 1, **settings: Any) -> Trained:
    """A policy with its first weights, large enough that actions differ from state to state."""
    config = get_algorithm(algorithm).Config.make(env=env, **settings)
    envs = make_envs(env, 1, env_config=config.env_config)
    spec = config.policy_spec(envs.observation_space, envs.action_space)
    envs.close()
    weights = first_weights(spec, seed)
    weights["action_head.weight"] = 100 * weights["action_head.weight"]
    return Trained(config, spec, weights, [])


class Lottery(gymnasium.Env[Any, Any]):
    """Short and long episodes by chance; the reward is the action, the length is the luck."""

    observation_space = Box(-1.0, 1.0, (3,), np.float32)
    action_space = Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = int(self.np_random.choice([1, 2, 40]))
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return self._observe(), float(action) + 0.5, self.left == 0, False, {}

    def _observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)


class Endless(Lottery):
    """An episode without an end."""

    def step(self, action: Any) -> Any:
        return self._observe(), 0.0, False, False, {}
