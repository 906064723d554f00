"""One environment whose episodes are kept as it gives them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import gymnasium

from rillflow.envs.make import attribute, made, takes_num_envs
from rillflow.envs.registry import BUILT_IN, is_atari, living_name
from rillflow.errors import BuildError

Episode = tuple[list[Any], list[Any], list[float], tuple[bool, bool]]
"""observations, actions, rewards, and whether it was terminated and truncated"""


class Tape(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps the observations, actions and rewards of the episode at hand."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observations: list[Any] = []
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self._ended: Episode | None = None

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        """A new episode; one that was not at its end is forgotten."""
        obs, info = self.env.reset(**how)
        self._begin()
        self.observations.append(deepcopy(obs))  # it may be a buffer that is written again
        return obs, info

    def step(self, action: Any) -> Any:
        """One step, kept."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.actions.append(deepcopy(action))
        self.observations.append(deepcopy(obs))
        self.rewards.append(float(reward))
        if terminated or truncated:
            ends = bool(terminated), bool(truncated)
            self._ended = self.observations, self.actions, self.rewards, ends
            self._begin()
        return obs, reward, terminated, truncated, info

    def pop(self) -> Episode | None:
        """The episode that has ended since the last call."""
        ended, self._ended = self._ended, None
        return ended

    def _begin(self) -> None:
        self.observations, self.actions, self.rewards = [], [], []


def single_env(env: Any, config: Mapping[str, Any], name: str) -> Any:
    """One environment, as its own code makes it: no vector of them."""
    if isinstance(env, str):
        known = living_name(env)
        if is_atari(known.id):
            raise _vector(name)
        path, config = BUILT_IN.get(known.id, known.id), {**known.config, **config}
        factory = attribute(path) if ":" in path else None
        if factory is None:
            path = path.partition(":")[2] or path  # Gymnasium's own meaning of a colon
            return made(_registered, name, {"path": path, **config})
        env = factory
    if not callable(env) or takes_num_envs(env):
        raise _vector(name)
    found = made(env, name, dict(config))
    if not isinstance(found, gymnasium.Env):
        raise _vector(name)
    return found


def _registered(path: str, **config: Any) -> Any:
    return gymnasium.make(path, disable_env_checker=True, **config)


def _vector(name: str) -> BuildError:
    return BuildError(
        f"environment {name!r} is a vector of one piece, and episodes are recorded from single "
        "environments: give a function that makes one gymnasium.Env."
    )
