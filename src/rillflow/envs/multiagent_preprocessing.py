"""A multi-agent vector environment whose observations are changed before policies see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.envs.frame_stack import FrameStack
from rillflow.envs.preprocessing import Preprocessing, preprocessed, shrunk_by_default, stack_of
from rillflow.envs.reset_after_error import Mending
from rillflow.envs.spaces import Array, Observations
from rillflow.envs.stacked_parts import StackedParts
from rillflow.envs.vector import Step

if TYPE_CHECKING:
    from gymnasium.spaces import Box, Space

    from rillflow.envs.multiagent import MultiAgentVector


class PreprocessedAgents:
    """A `MultiAgentVector` around another one."""

    def __init__(self, vector: MultiAgentVector, how: Preprocessing, name: str) -> None:
        self.vector: Any = vector
        self.num_envs: int = vector.num_envs
        self.agents: Sequence[str] = vector.agents
        self.exact = hasattr(type(vector), "get_state") and getattr(vector, "exact", True)
        self.mending: Mending | None = getattr(vector, "mending", None)
        """what brings back copies that raise; None: they fail as a whole"""
        self._seen: dict[str, Observations] = {}
        self._stacks: dict[str, FrameStack | StackedParts] = {}
        self.shrunk: str | None = None
        """what to tell of images that are smaller than the environment's, though nobody said so"""
        for agent in self.agents:
            own = Observations(vector.observation_space(agent), lambda raw: raw)
            self._seen[agent] = seen = preprocessed(own, how, f"{name}[{agent!r}]")
            self.shrunk = self.shrunk or shrunk_by_default(own.space, how)
            stack = stack_of(seen.space, how)
            if stack is not None:
                self._stacks[agent] = stack

    @property
    def changes(self) -> bool:
        """Whether any agent sees something else than the environment shows."""
        spaces = (
            (self.observation_space(a), self.vector.observation_space(a)) for a in self.agents
        )
        return any(seen != own for seen, own in spaces)

    @property
    def infos(self) -> list[dict[str, Any]]:
        """Of the last step, for each copy those of its agents, if the environment has any."""
        infos: list[dict[str, Any]] = self.vector.infos
        return infos

    def observation_space(self, agent: str) -> Box:
        """Of one copy, as a policy sees it."""
        return (self._stacks if self._stacks else self._seen)[agent].space

    def action_space(self, agent: str) -> Space[Any]:
        """Of one copy."""
        space: Space[Any] = self.vector.action_space(agent)
        return space

    def reset(self, *, seed: int | None = None) -> dict[str, Array]:
        """Begin new episodes in every copy."""
        first = self.vector.reset(seed=seed)
        return {agent: self._first(agent, first[agent]) for agent in self.agents}

    def _first(self, agent: str, raw: Array) -> Array:
        obs = self._seen[agent].encode(raw)
        return self._stacks[agent].begin(obs) if self._stacks else obs

    def step(self, actions: Mapping[str, Array]) -> dict[str, Step]:
        """Act with every agent in every copy."""
        steps = self.vector.step(actions)
        return {agent: self._step(agent, steps[agent]) for agent in self.agents}

    def _step(self, agent: str, step: Step) -> Step:
        encode = self._seen[agent].encode
        obs, next_obs = encode(step.obs), step.next_obs
        if next_obs is not None:
            next_obs = obs if next_obs is step.obs else encode(next_obs)
        if self._stacks:
            obs, next_obs = self._stacks[agent].step(obs, next_obs, _begun(step))
        return step._replace(obs=obs, next_obs=next_obs)

    def get_state(self) -> dict[str, Any]:
        """The environment's, and what its agents saw last."""
        stacks = {agent: stack.newest() for agent, stack in self._stacks.items()}
        return {"vector": self.vector.get_state(), "stacks": stacks}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.vector.set_state(state["vector"])
        for agent, stacked in state["stacks"].items():
            self._stacks[agent].restore(stacked)

    def close(self) -> None:
        """Let the environments go."""
        self.vector.close()


def _begun(step: Step) -> Any:
    """Where `obs` is the first of an episode, or an agent is not there, and may join next."""
    ended = step.terminated | step.truncated
    idle = np.zeros_like(ended) if step.valid is None else ~step.valid
    if step.next_obs is None and step.valid is not None:
        return idle  # after the end comes the final observation, then a reset
    return ended | idle
