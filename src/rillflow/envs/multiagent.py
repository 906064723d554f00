"""Several agents in one environment, grouped by the policy that acts for them.

A multi-agent vector environment is anything with the methods of `MultiAgentVector`: for each agent
it speaks in batches over its copies, with the same `Step` as single-agent environments. Agents
need not begin and end together; a row in which an agent did not act is not `valid`.

`MultiAgentEnvs` then speaks per policy: agents mapped to one policy are one batch, agent by agent,
so row `a * num_envs + i` is the policy's `a`-th agent in copy `i`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rillflow.envs.checks import EnvError, actions_mismatch, mismatch, not_finite, where
from rillflow.envs.episodes import Episodes
from rillflow.envs.spaces import Array
from rillflow.envs.vector import Envs, Step

if TYPE_CHECKING:
    from gymnasium.spaces import Box, Space


class MultiAgentVector(Protocol):
    """What a multi-agent vector environment has to offer; plain arrays in and out.

    It may also have `get_state()` and `set_state(state)`, if it can continue exactly.
    """

    num_envs: int
    agents: Sequence[str]
    """every agent that can ever act"""

    def observation_space(self, agent: str) -> Box:
        """Of one copy: float32, or uint8 for an image."""
        ...

    def action_space(self, agent: str) -> Space[Any]:
        """Of one copy: Discrete, MultiDiscrete or Box."""
        ...

    def reset(self, *, seed: int | None = None) -> Mapping[str, Array]:
        """Begin new episodes in every copy; for each agent its observations [B, ...]."""
        ...

    def step(self, actions: Mapping[str, Array]) -> Mapping[str, Step]:
        """Act with every agent in every copy; actions in rows that cannot act are ignored."""
        ...

    def close(self) -> None:
        """Let the environments go."""
        ...


@dataclass(frozen=True)
class PolicyGroup:
    """The agents one policy acts for, and the spaces they share."""

    agents: tuple[str, ...]
    observation_space: Box
    action_space: Space[Any]


class MultiAgentEnvs:
    """A multi-agent vector environment as one batch per policy; see `make_multi_agent_envs`."""

    def __init__(
        self,
        vector: MultiAgentVector,
        groups: Mapping[str, PolicyGroup],
        *,
        name: str,
        seed: int = 0,
    ) -> None:
        self.name, self.vector, self.groups = name, vector, dict(groups)
        self.num_envs = vector.num_envs
        self.obs: dict[str, Array] | None = None
        """for each policy the observations to act on now; None before the first reset"""
        self._seed: int | None = seed & 0x3FFFFFFF
        self._steps = 0
        self._episodes = {policy: Episodes(self.rows(policy)) for policy in self.groups}
        self.exact = hasattr(type(vector), "get_state") and getattr(vector, "exact", True)
        """whether `set_state` continues exactly where `get_state` was called"""

    def rows(self, policy: str) -> int:
        """How many rows a policy's batch has: its agents times the copies."""
        return len(self.groups[policy].agents) * self.num_envs

    def reset(self) -> dict[str, Array]:
        """Begin new episodes everywhere; the first call seeds the environment."""
        first = self.vector.reset(seed=self._seed)
        self._seed = None
        for episodes in self._episodes.values():
            episodes.begin()
        self.obs = {
            policy: np.concatenate([self._checked(agent, first[agent]) for agent in group.agents])
            for policy, group in self.groups.items()
        }
        return self.obs

    def step(self, actions: Mapping[str, Array]) -> dict[str, Step]:
        """Act once with every policy for all of its agents."""
        if self.obs is None:
            raise EnvError(f"{where(self.name)}: call reset() before step()")
        taken = self._split(actions)
        self._steps += 1
        results = self.vector.step(taken)
        steps = {}
        for policy, group in self.groups.items():
            parts = [self._checked_step(agent, results[agent]) for agent in group.agents]
            steps[policy] = join_steps(parts)
            self._count(policy, steps[policy])
        self.obs = {policy: step.obs for policy, step in steps.items()}
        return steps

    def pop_episodes(self) -> dict[str, list[tuple[float, int]]]:
        """For each policy, return and length of its agents' episodes that ended since."""
        return {policy: episodes.pop() for policy, episodes in self._episodes.items()}

    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on later; the environment itself only if `exact`."""
        vector: Any = self.vector
        return {
            "env": vector.get_state() if self.exact and self.obs is not None else None,
            "obs": None if self.obs is None else {k: v.copy() for k, v in self.obs.items()},
            "episodes": {policy: e.get_state() for policy, e in self._episodes.items()},
            "steps": self._steps,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`; if it was not exact, with new episodes."""
        vector: Any = self.vector
        self._steps = state["steps"]
        for policy, episodes in self._episodes.items():
            episodes.set_state(state["episodes"][policy])
        if state["env"] is not None and self.exact:
            vector.set_state(state["env"])
            self.obs, self._seed = {k: v.copy() for k, v in state["obs"].items()}, None
        elif state["obs"] is not None:
            fresh = np.random.SeedSequence([self._seed or 0, self._steps]).generate_state(1)[0]
            self._seed = int(fresh) & 0x3FFFFFFF
            self.reset()

    def close(self) -> None:
        """Let the environments go."""
        self.vector.close()

    def _split(self, actions: Mapping[str, Array]) -> dict[str, Array]:
        if actions.keys() != self.groups.keys():
            raise EnvError(
                f"{where(self.name)}: expected actions of the policies {sorted(self.groups)}, "
                f"found {sorted(actions)}"
            )
        taken: dict[str, Array] = {}
        for policy, group in self.groups.items():
            batch = np.asarray(actions[policy])
            problem = actions_mismatch(group.action_space, batch, self.rows(policy))
            if problem:
                raise EnvError(f"{where(self.name)}: policy {policy!r}: {problem}")
            parts = batch.reshape(len(group.agents), self.num_envs, *batch.shape[1:])
            taken.update(zip(group.agents, parts, strict=True))
        return taken

    def _checked(self, agent: str, obs: Array) -> Array:
        from gymnasium.vector.utils import batch_space

        space = batch_space(self.vector.observation_space(agent), self.num_envs)
        key = f"observation[{agent!r}]"
        problem = mismatch(space, obs, key)
        if problem:
            raise EnvError(f"{where(self.name, step=self._steps)}: {problem}")
        if not np.isfinite(obs).all():
            raise not_finite(self.name, self._steps, obs, obs, key)
        return obs

    def _checked_step(self, agent: str, step: Step) -> Step:
        if not np.isfinite(step.obs).all():
            raise not_finite(
                self.name, self._steps, step.obs, step.obs, f"observation[{agent!r}]"
            )
        if not np.isfinite(step.rewards).all():
            rewards = step.rewards
            raise not_finite(self.name, self._steps, rewards, rewards, f"reward[{agent!r}]")
        return step

    def _count(self, policy: str, step: Step) -> None:
        done = step.terminated | step.truncated
        self._episodes[policy].count(step.rewards, step.valid)
        if done.any():
            self._episodes[policy].end(done)


def join_steps(parts: Sequence[Step]) -> Step:
    """The steps of several agents as one batch, agent by agent."""
    if len(parts) == 1:
        return parts[0]
    valid = next_obs = None
    if any(part.valid is not None for part in parts):
        whole = [np.ones(len(p.rewards), bool) if p.valid is None else p.valid for p in parts]
        valid = np.concatenate(whole)
    if any(part.next_obs is not None for part in parts):
        next_obs = np.concatenate([p.obs if p.next_obs is None else p.next_obs for p in parts])
    obs, rewards, terminated, truncated = (
        np.concatenate([part[i] for part in parts])  # type: ignore[misc] # the first four are arrays
        for i in range(4)
    )
    return Step(obs, rewards, terminated, truncated, valid, next_obs)


class MultiAgentCartPole:
    """`agents` poles in each copy, one for each agent; each falls and begins again by itself."""

    def __init__(self, num_envs: int, agents: int = 2, max_episode_steps: int = 500) -> None:
        from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

        self.num_envs = num_envs
        self.agents = tuple(f"agent_{i}" for i in range(agents))
        poles = CartPoleVectorEnv(num_envs * agents, max_episode_steps)
        self._make: Callable[[int], Envs] = lambda seed: Envs(
            poles, name="MultiAgentCartPole", seed=seed
        )
        self._envs = self._make(0)
