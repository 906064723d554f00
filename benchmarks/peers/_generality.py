"""What the two sides of `generality.py` share: environments, greedy and random scores.

Nothing of rillflow or of a peer is imported here. Two environments are our own, plain Gymnasium:
one with observations in a dict, one with several choices in an action.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

START = float(os.environ.get("PEER_T0") or time.time())
"""when the process was started, before the interpreter was"""
COPIES = 20
"""environments in which greedy episodes are played side by side"""


class Beacon(gym.Env[Any, Any]):
    """Go to a beacon on a plane; what the four moves do depends on a mode that changes."""

    steps_allowed: ClassVar[int] = 50

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            place=spaces.Box(-1.0, 1.0, (2,), np.float32),
            beacon=spaces.Box(-1.0, 1.0, (2,), np.float32),
            mode=spaces.Discrete(4),
        )
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.beacon = self.np_random.uniform(-1, 1, (2, 2))
        self.mode, self.t = int(self.np_random.integers(4)), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        angle = (int(action) + self.mode) * np.pi / 2
        self.place = np.clip(self.place + 0.1 * np.array([np.cos(angle), np.sin(angle)]), -1, 1)
        if self.np_random.random() < 0.1:
            self.mode = int(self.np_random.integers(4))
        self.t += 1
        far = float(np.linalg.norm(self.place - self.beacon))
        there = far < 0.1
        return self._seen(), 10.0 if there else -far, there, self.t >= self.steps_allowed, {}

    def _seen(self) -> dict[str, Any]:
        floats = (x.astype(np.float32) for x in (self.place, self.beacon))
        return {**dict(zip(("place", "beacon"), floats, strict=True)), "mode": self.mode}


class Lock(gym.Env[Any, Any]):
    """Set three dials to what is shown; every dial that is wrong costs, and all right opens it."""

    steps_allowed: ClassVar[int] = 20

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (6,), np.float32)
        self.action_space = spaces.MultiDiscrete([5, 5, 5])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.wanted, self.right, self.t = self.np_random.integers(5, size=3), np.zeros(3), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.right = (np.asarray(action) == self.wanted).astype(float)
        self.t += 1
        wrong = float(3 - self.right.sum())
        return self._seen(), -wrong / 3, wrong == 0, self.t >= self.steps_allowed, {}

    def _seen(self) -> Any:
        return np.concatenate([self.wanted / 4, self.right]).astype(np.float32)


OWN = {"Beacon": Beacon, "Lock": Lock}


def make(name: str, **settings: Any) -> gym.Env[Any, Any]:
    """One environment by its name: Gymnasium's, MinAtar's, or one of ours."""
    if name in OWN:
        return OWN[name](**settings)
    if name.startswith("MinAtar/"):
        import minatar.gym

        if name not in gym.registry:
            minatar.gym.register_envs()
    return gym.make(name, **settings)


def stacked(observations: list[Any]) -> Any:
    """Observations of several environments in one, by their names if they have any."""
    if isinstance(observations[0], dict):
        return {name: stacked([o[name] for o in observations]) for name in observations[0]}
    return np.stack([np.asarray(o) for o in observations])


def score(name: str, act: Callable[[Any], Any], episodes: int = 100, seed: int = 77_000) -> float:
    """Mean return of so many episodes, the same ones for everybody.

    Args:
        name: the environment.
        act: stacked observations to stacked actions, as the environment takes them.
        episodes: how many.
        seed: of the first one.
    """
    copies = [make(name) for _ in range(min(COPIES, episodes))]
    waiting = iter(range(episodes))
    playing: dict[int, Any] = {}
    totals = np.zeros(episodes)
    which: dict[int, int] = {}

    def begin(index: int) -> None:
        playing.pop(index, None)
        episode = next(waiting, None)
        if episode is not None:
            playing[index] = copies[index].reset(seed=seed + episode)[0]
            which[index] = episode

    for index in range(len(copies)):
        begin(index)
    while playing:
        order = list(playing)
        for index, action in zip(order, act(stacked([playing[i] for i in order])), strict=True):
            observation, reward, terminated, truncated, _ = copies[index].step(action)
            totals[which[index]] += float(reward)
            playing[index] = observation
            if terminated or truncated:
                begin(index)
    for copy in copies:
        copy.close()
    return float(totals.mean())


def random_score(name: str, episodes: int = 100) -> float:
    """Mean return of uniformly random actions."""
    env = make(name)
    env.action_space.seed(0)
    some = env.action_space.sample

    def act(observations: Any) -> list[Any]:
        first = (
            next(iter(observations.values())) if isinstance(observations, dict) else observations
        )
        return [some() for _ in range(len(first))]

    return score(name, act, episodes)


def options() -> argparse.Namespace:
    """What both drivers are told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--algorithm", choices=("ppo", "sac"), default="ppo")
    parser.add_argument("--env", default="Hopper-v5")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--curve", type=int, default=0, help="evaluations on the way, 20 episodes")
    parser.add_argument("--settings", default="{}", help="JSON, for tuning")
    return parser.parse_args()


def tell(**fields: Any) -> None:
    """The one line that the benchmark reads."""
    sys.__stdout__.write(json.dumps(fields) + "\n")
    sys.__stdout__.flush()
