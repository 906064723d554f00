"""CartPole with several agents: the smallest multi-agent environment with something to learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from rillflow.envs.spaces import Array
from rillflow.envs.vector import Envs, Step

if TYPE_CHECKING:
    from gymnasium.spaces import Box, Space


class MultiAgentCartPole:
    """`agents` poles in each copy, one for each agent; each falls and begins again by itself.

    All poles of all copies are one native vector, agent by agent.
    """

    def __init__(self, num_envs: int, agents: int = 2, max_episode_steps: int = 500) -> None:
        self.num_envs = num_envs
        self.agents = tuple(f"agent_{i}" for i in range(agents))
        self._poles = CartPoleVectorEnv(num_envs * agents, max_episode_steps)
        self._envs = Envs(self._poles, name="MultiAgentCartPole")

    def observation_space(self, agent: str) -> Box:
        """As CartPole's."""
        return self._envs.observation_space

    def action_space(self, agent: str) -> Space[Any]:
        """As CartPole's."""
        return self._envs.action_space

    def reset(self, *, seed: int | None = None) -> dict[str, Array]:
        """Put every pole upright."""
        if seed is not None:
            self._envs = Envs(self._poles, name="MultiAgentCartPole", seed=seed)
        return dict(zip(self.agents, self._parts(self._envs.reset()), strict=True))

    def step(self, actions: Mapping[str, Array]) -> dict[str, Step]:
        """Push every cart."""
        step = self._envs.step(np.concatenate([actions[agent] for agent in self.agents]))
        columns = [[None] * len(self.agents) if x is None else self._parts(x) for x in step]
        self._envs.pop_episodes()  # counted once, by policy
        rows = zip(*columns, strict=True)
        return {agent: Step(*row) for agent, row in zip(self.agents, rows, strict=True)}

    def get_state(self) -> dict[str, Any]:
        """All that the future depends on."""
        return self._envs.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """The reverse of `get_state`."""
        self._envs.set_state(state)

    def close(self) -> None:
        """Let the poles go."""
        self._envs.close()

    def _parts(self, array: Array) -> list[Array]:
        return list(array.reshape(len(self.agents), self.num_envs, *array.shape[1:]))
