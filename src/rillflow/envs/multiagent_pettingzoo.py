"""PettingZoo's parallel API as a `MultiAgentVector`.

A copy begins again within the step in which its last agent ends (the SAME_STEP mode). An agent that
ends earlier, or joins later, has rows that are not `valid` until it acts again. PettingZoo itself
is not imported: the API is a few methods, and any environment with them will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.envs.checks import (
    EnvError,
    flag_mismatch,
    found,
    mismatch,
    number_mismatch,
    raised,
    where,
)
from rillflow.envs.spaces import Array, actions_of, observations_of
from rillflow.envs.vector import Step
from rillflow.errors import BuildError

if TYPE_CHECKING:
    from gymnasium.spaces import Box, Space

_PARTS = ("observations", "rewards", "terminations", "truncations", "infos")


class ParallelEnvs:
    """Copies of a PettingZoo parallel environment."""

    def __init__(self, envs: Sequence[Any], name: str) -> None:
        first = envs[0]
        if not hasattr(first, "possible_agents") or hasattr(first, "agent_selection"):
            aec = "; this is its turn-based API: use parallel_env()"
            raise BuildError(
                f"environment {name!r}: expected a PettingZoo parallel environment with a fixed "
                f"set of possible_agents, found {found(first)}"
                f"{aec if hasattr(first, 'agent_selection') else ''}"
            )
        self.num_envs = len(envs)
        self.agents: tuple[str, ...] = tuple(first.possible_agents)
        self._envs, self._name, self._steps = list(envs), name, 0
        self._raw = {a: first.observation_space(a) for a in self.agents}
        self._seen = {a: observations_of(s, f"{name}[{a!r}]") for a, s in self._raw.items()}
        self._acts = {a: actions_of(first.action_space(a), f"{name}[{a!r}]") for a in self.agents}
        self._alive = {a: np.zeros(self.num_envs, bool) for a in self.agents}

    def observation_space(self, agent: str) -> Box:
        """Of one copy, after encoding."""
        return self._seen[agent].space

    def action_space(self, agent: str) -> Space[Any]:
        """Of one copy, as a policy sees it."""
        return self._acts[agent].space

    def reset(self, *, seed: int | None = None) -> dict[str, Array]:
        """Begin an episode in every copy."""
        found_obs = {
            i: self._reset_copy(i, None if seed is None else seed + i) for i in range(self.num_envs)
        }
        return {agent: self._encode(agent, found_obs) for agent in self.agents}

    def step(self, actions: Mapping[str, Array]) -> dict[str, Step]:
        """Act in every copy with the agents that live there."""
        self._steps += 1
        taken = {agent: self._acts[agent].to_env(actions[agent]) for agent in self.agents}
        valid = {agent: alive.copy() for agent, alive in self._alive.items()}
        columns = tuple(
            {agent: np.zeros(self.num_envs, kind) for agent in self.agents}
            for kind in (np.float32, bool, bool)
        )
        after: dict[int, dict[str, Any]] = {}
        begun: dict[int, dict[str, Any]] = {}
        for i in range(self.num_envs):
            acting = {agent: taken[agent][i] for agent in self.agents if valid[agent][i]}
            after[i], *results = self._step_copy(i, acting)
            for agent in acting:
                for column, result in zip(columns, results, strict=True):
                    column[agent][i] = result[agent]
            self._keep_living(i, acting, after[i], results[1], results[2])
            if not any(alive[i] for alive in self._alive.values()):
                begun[i] = self._reset_copy(i, None)
        rewards, terminated, truncated = columns
        steps = {}
        for agent in self.agents:
            obs = next_obs = self._encode(agent, after)
            if begun:
                rows = list(begun)
                obs = next_obs.copy()
                obs[rows] = self._encode(agent, begun)[rows]
            steps[agent] = Step(
                obs, rewards[agent], terminated[agent], truncated[agent], valid[agent], next_obs
            )
        return steps

    def _keep_living(
        self,
        i: int,
        acting: Mapping[str, Any],
        obs: Mapping[str, Any],
        terminated: Mapping[str, Any],
        truncated: Mapping[str, Any],
    ) -> None:
        """Note who can act next in copy `i`: who stays, who joins; nobody leaves without an end."""
        living = self._envs[i].agents
        for agent in self.agents:
            over = agent in acting and bool(terminated[agent] or truncated[agent])
            stays = agent in living and agent in obs
            if agent in acting and not over and not stays:
                self._refuse(i, f"agent {agent!r} left without terminated or truncated")
            self._alive[agent][i] = stays and not over

    def close(self) -> None:
        """Close every copy."""
        for env in self._envs:
            env.close()

    def _reset_copy(self, i: int, seed: int | None) -> dict[str, Any]:
        try:
            result = self._envs[i].reset(seed=seed)
        except Exception as error:
            raise raised(error, "reset", self._name, i) from error
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], dict):
            self._refuse(i, f"reset() must return (observations, infos), found {found(result)}")
        obs: dict[str, Any] = result[0]
        self._check_agents(i, obs)
        for agent in self.agents:
            self._alive[agent][i] = agent in obs
        return obs

    def _step_copy(self, i: int, actions: dict[str, Any]) -> list[dict[str, Any]]:
        """Observations, rewards, terminations and truncations of one copy, checked."""
        try:
            result = self._envs[i].step(actions)
        except Exception as error:
            raise raised(error, "step", self._name, i, self._steps) from error
        fine = isinstance(result, tuple) and len(result) == len(_PARTS)
        if not fine or not all(isinstance(part, dict) for part in result):
            names = ", ".join(_PARTS)
            self._refuse(i, f"step() must return five dicts ({names}), found {found(result)}")
        self._check_agents(i, result[0])
        checks = (None, number_mismatch, flag_mismatch, flag_mismatch)
        for agent in actions:
            for part, key, check in zip(result, _PARTS, checks, strict=False):
                if agent not in part:
                    self._refuse(i, f"{key}: expected agent {agent!r}, which acted; it is missing")
                self._refuse(i, check(part[agent], f"{key}[{agent!r}]") if check else None)
        return list(result[:4])

    def _check_agents(self, i: int, obs: dict[str, Any]) -> None:
        for agent, value in obs.items():
            if agent not in self._raw:
                self._refuse(i, f"agent {agent!r} is not among possible_agents {self.agents}")
            self._refuse(i, mismatch(self._raw[agent], value, f"observation[{agent!r}]"))

    def _refuse(self, i: int, problem: str | None) -> None:
        if problem:
            raise EnvError(f"{where(self._name, i, self._steps)}: {problem}")

    def _encode(self, agent: str, copies: Mapping[int, Mapping[str, Any]]) -> Array:
        """An agent's observations in one array; zeros in copies where it sees nothing."""
        space, seen = self._raw[agent], self._seen[agent]
        shape = (self.num_envs, *seen.space.shape)
        out: Array = np.zeros(shape, seen.space.dtype)
        rows = [i for i, obs in copies.items() if agent in obs]
        if rows and (space.dtype, space.shape) == (seen.space.dtype, seen.space.shape):
            for i in rows:  # large images are copied once
                out[i] = copies[i][agent]
        elif rows:
            out[rows] = seen.encode(self._batch(space, [copies[i][agent] for i in rows]))
        return out

    def _batch(self, space: Space[Any], values: list[Any]) -> Any:
        from gymnasium.vector.utils import concatenate, create_empty_array

        empty: Any = create_empty_array(space, n=len(values))
        return concatenate(space, values, empty)
