"""PettingZoo's turn-based (AEC) environments as parallel ones.

Everybody acts in every step, and only the action of the agent whose turn it is counts. The others
wait: their mask allows their first action alone, which has no effect. So its probability is 1, it
teaches nothing, and what an opponent's move brings is the reward of the step in which one waited.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from rillflow.envs.layout import MASK
from rillflow.envs.spaces import actions_of, choices_of


def in_parallel(env: Any) -> Any:
    """A PettingZoo environment as a parallel one; what is parallel already as it is."""
    return TurnsInParallel(env) if hasattr(env, "agent_selection") or _waits(env) else env


def _waits(env: Any) -> bool:
    """Whether an environment is turn-based although it was never reset."""
    return callable(getattr(env, "agent_iter", None)) and callable(getattr(env, "last", None))


class TurnsInParallel:
    """A turn-based environment in which everybody acts, and all but one wait."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.possible_agents = list(env.possible_agents)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._waiting = {
            agent: _first_of_each(choices_of(actions_of(self.action_space(agent), agent).space))
            for agent in self.possible_agents
        }
        """what those who wait are allowed"""

    @property
    def agents(self) -> list[str]:
        """Those whose episode goes on."""
        return list(self._env.agents)

    @property
    def unwrapped(self) -> Any:
        """The turn-based environment."""
        return self._env.unwrapped

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode."""
        self._env.reset(seed=seed, options=options)
        return self._seen()

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """The turn of one agent, and of those after it that are out."""
        env = self._env
        env.step(actions[env.agent_selection])
        results = dict(env.rewards), dict(env.terminations), dict(env.truncations)
        observed = {agent: env.observe(agent) for agent in env.agents}
        while env.agents and _is_out(env, env.agent_selection):
            env.step(None)
        obs, infos = self._seen(observed)
        return obs, *results, infos

    def _seen(self, observed: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], Any]:
        """Observations and infos of all agents, with the masks of those that wait."""
        env = self._env
        if observed is None:
            observed = {agent: env.observe(agent) for agent in env.agents}
        turn = env.agent_selection if env.agents else None
        obs, infos = dict(observed), {}
        for agent in observed:
            infos[agent] = dict(env.infos.get(agent, {}))
            mask = self._waiting[agent]
            inside = isinstance(obs[agent], Mapping) and MASK in obs[agent]
            if not len(mask):
                continue
            if agent != turn:
                infos[agent][MASK] = mask
                if inside:
                    own = np.asarray(obs[agent][MASK])
                    wait = mask.astype(own.dtype).reshape(own.shape)
                    obs[agent] = {**obs[agent], MASK: wait}
            elif not inside:
                infos[agent].setdefault(MASK, np.ones_like(mask))
        return obs, infos

    def render(self) -> Any:
        """A picture, if the environment makes one."""
        return self._env.render()

    def close(self) -> None:
        """Let the environment go."""
        self._env.close()


def _is_out(env: Any, agent: str) -> bool:
    return bool(env.terminations[agent] or env.truncations[agent])


def _first_of_each(sizes: tuple[int, ...]) -> Any:
    mask = np.zeros(sum(sizes), np.int8)
    mask[list(accumulate(sizes, initial=0))[:-1]] = 1
    return mask
