"""Atari games that can be saved: what was played since the last seed is played again.

ALE's vector environment runs the console, preprocessing and random numbers in native code, and
gives none of its state away. But a game follows from its seed and the actions taken in it, so these
are the state: nothing of it can be forgotten, neither stacked frames nor sticky actions nor idle
starts. To go on, the actions are played again. So that they do not become too many, an environment
that has made `STEPS_PER_SEED` steps takes a new seed when its next episode begins.

See docs/decisions/0004-atari-state.md for what this costs and what else was tried.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete, Space
from gymnasium.vector import VectorEnv

from rillflow.envs.checks import EnvError, where

Array = npt.NDArray[Any]

STEPS_PER_SEED = 5000
"""a new seed takes as long as about 250 steps: the console is built anew"""


class ActionLog:
    """The actions of each environment since its last seed."""

    def __init__(self, num_envs: int, actions: Space[Any]) -> None:
        kind = np.uint8 if isinstance(actions, Discrete) else actions.dtype
        self.length = np.zeros(num_envs, np.int64)
        self._actions: Array = np.zeros((num_envs, 1, *(actions.shape or ())), kind)

    def add(self, actions: Array) -> None:
        """Another step of all."""
        self._make_room(int(self.length.max()) + 1)
        self._actions[np.arange(len(self.length)), self.length] = actions
        self.length += 1

    def _make_room(self, steps: int) -> None:
        while self._actions.shape[1] < steps:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)

    def get_state(self) -> dict[str, Any]:
        """One environment after the other."""
        parts = [own[:steps] for own, steps in zip(self._actions, self.length, strict=True)]
        return {"length": self.length.copy(), "actions": np.concatenate(parts)}

    def set_state(self, state: dict[str, Any]) -> None:
        """The reverse of `get_state`."""
        self.length = state["length"].copy()
        self._make_room(int(self.length.max()))
        parts = np.split(state["actions"], np.cumsum(self.length)[:-1])
        for own, part in zip(self._actions, parts, strict=True):
            own[: len(part)] = part

    def before_end(self, steps: int) -> tuple[Array, Array]:
        """Which environments have so many steps or more, and what they did so long ago."""
        rows = np.flatnonzero(self.length >= steps)
        return rows, self._actions[rows, self.length[rows] - steps]


class SavedAtari(VectorEnv[Array, Array, Array]):
    """An `ale_py.AtariVectorEnv` with `get_state` and `set_state`."""

    def __init__(self, games: Any, name: str) -> None:
        self.games, self.name = games, name
        self.num_envs: int = games.num_envs
        self.metadata = {**games.metadata, "autoreset_mode": games.autoreset_mode}
        self.single_observation_space = games.single_observation_space
        self.single_action_space = games.single_action_space
        self.observation_space, self.action_space = games.observation_space, games.action_space
        self._seed = 0
        self._taken = np.zeros(self.num_envs, np.int64)  # how many seeds, by environment
        self._log = ActionLog(self.num_envs, self.single_action_space)
        self._obs: Array = np.empty(0)
        self._ended = np.zeros(self.num_envs, bool)  # with the last step
        self._begins_at_once = games.autoreset_mode.value == "SameStep"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """New games everywhere, or where `options["reset_mask"]` says, each with a new seed."""
        rows = np.ones(self.num_envs, bool)
        if options and "reset_mask" in options:
            rows = options["reset_mask"]
        if seed is not None:
            self._seed, self._taken[rows] = seed, 0
        return self._begin(rows)

    def _begin(self, rows: Array) -> tuple[Array, dict[str, Any]]:
        self._taken[rows] += 1
        self._log.length[rows] = 0
        self._ended = self._ended & ~rows
        self._obs, info = self._seeded(rows)
        return self._obs, info

    def _seeded(self, rows: Array) -> tuple[Array, dict[str, Any]]:
        seeds = np.array([self._seed_of(int(i)) for i in np.flatnonzero(rows)])
        result: tuple[Array, dict[str, Any]]
        result = self.games.reset(seed=seeds, options={"reset_mask": rows})
        return result

    def _seed_of(self, i: int) -> int:
        """The newest of one environment; at first they count up, as Gymnasium has it."""
        if self._taken[i] == 1:
            return self._seed + i
        drawn = np.random.SeedSequence([self._seed, i, int(self._taken[i])])
        return int(drawn.generate_state(1)[0]) & 0x3FFFFFFF

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Act in every game, or begin it again; with a new seed, if the last one is old."""
        self._log.add(actions)
        ended_before = self._ended
        self._obs, rewards, terminated, truncated, info = self.games.step(actions)
        self._ended = terminated | truncated
        begun = self._ended if self._begins_at_once else ended_before
        due = begun & (self._log.length >= STEPS_PER_SEED)
        if due.any():
            self._begin(due)
        return self._obs, rewards, terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        """Seeds and the actions since; also a sum over what is seen now, to know it again."""
        return {
            "seed": self._seed,
            "taken": self._taken.copy(),
            "tape": self._log.get_state(),
            "ended": self._ended.copy(),
            "seen": _sum(self._obs),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Play until there again; all games arrive together, so the longest begins first."""
        self._seed, self._taken = state["seed"], state["taken"].copy()
        self._log.set_state(state["tape"])
        self._ended = state["ended"].copy()
        length = self._log.length
        self.games.reset()
        actions = np.zeros(self.action_space.shape or (), self.single_action_space.dtype)
        for steps in range(int(length.max()), -1, -1):
            starting = length == steps
            if starting.any():
                self._obs, _ = self._seeded(starting)
            if steps:
                rows, taken = self._log.before_end(steps)
                actions[rows] = taken
                self._obs = self.games.step(actions)[0]
        if _sum(self._obs) != state["seen"]:
            raise EnvError(
                f"{where(self.name)}: the games of this checkpoint, played again, went another "
                "way: go on with the ale-py they were played with, or begin a new run"
            )

    def close_extras(self, **_: Any) -> None:
        """Let the consoles go."""
        self.games.close()


def _sum(obs: Array) -> int:
    return zlib.crc32(obs.tobytes())
