"""Datasets for goals and curves of algorithms that learn from data: made anew from a seed."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rillflow as rf
from rillflow.results import record_data


class Recorded(NamedTuple):
    """A dataset, and how good those were who made it."""

    path: str
    mean: float
    """mean return of its episodes"""
    best: float
    """mean return of the best policy in it"""


MEDIUM, AROUND = -600.0, 50.0
"""mean return of what is half learned, and how far from it data may be"""
LEARNING, PASSED = -950.0, -250.0
"""greedy returns between which drawn actions may be worth that"""
TRIES = 5
"""who makes them, one after the other"""

_FOLDER = tempfile.TemporaryDirectory(prefix="rillflow-recorded-")


def _place(name: str, seed: int) -> Path:
    return Path(_FOLDER.name) / f"{name}-{seed}"


@cache
def cartpole_expert(seed: int) -> Recorded:
    """20 episodes of PPO when it is good."""
    path = _place("cartpole-expert", seed)
    found = record_data(_expert(seed), path, 20, seed=seed)
    return Recorded(str(path), found.mean_return, found.mean_return)


@cache
def cartpole_mixed(seed: int, expert: int = 0) -> Recorded:
    """As many steps of that policy as of its opposite: 0.8 of its actions are the other one.

    Every seed has as many experts as are asked for, each trained anew.
    """
    path, trained = _place(f"cartpole-mixed-{expert}", seed), _expert(seed + 1000 * expert)
    good = record_data(trained, path, steps=10_000, seed=seed)
    bad = record_data(trained, path, steps=10_000, seed=seed + 1, act=_mostly_wrong, append=True)
    returns = [*good.returns, *bad.returns]
    return Recorded(str(path), float(np.mean(returns)), good.mean_return)


def _mostly_wrong(actions: Any, obs: Any, rng: np.random.Generator) -> Any:
    return np.where(rng.random(len(actions)) < 0.8, 1 - actions, actions)


@cache
def _expert(seed: int) -> Any:
    until = {"return": 475, "steps": 150_000}
    return rf.train("ppo", "CartPole-v1", until=until, engine="sim", seed=seed, num_workers=1)


@cache
def pendulum_expert(seed: int) -> Recorded:
    """50 episodes of SAC after 10,000 steps."""
    path = _place("pendulum-expert", seed)
    trained = rf.train("sac", "Pendulum-v1", until=10_000, engine="sim", seed=seed)
    found = record_data(trained, path, 50, seed=seed)
    return Recorded(str(path), found.mean_return, found.mean_return)


@cache
def pendulum_medium(seed: int) -> Recorded:
    """100 episodes, actions drawn, of a SAC that learns slowly, when they are worth about -600.

    It passes through -600 quickly, and its drawn actions are worth other than its greedy ones: from
    when its greedy policy is near, episodes are recorded every 50 steps, until they are as they
    should be. One that jumps over that is replaced by another.
    """
    slow = {"lr": 5e-4, "training_intensity": 128.0}
    for again in range(TRIES):
        halfway = _Halfway(_place(f"pendulum-medium-{again}", seed), seed)
        rf.train(
            "sac", "Pendulum-v1", until={"steps": 20_000, "eval_return": PASSED}, engine="sim",
            seed=seed + 1000 * again, eval_every=50, eval_episodes=50, on_evaluation=halfway,
            **slow,
        )  # fmt: skip
        if halfway.found is not None:
            return halfway.found
    raise RuntimeError(f"{TRIES} policies of seed {seed} jump over {MEDIUM}: add to TRIES")


class _Halfway:
    """A callback: records whoever is near -600, and stops where the record is."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.found: Recorded | None = None

    def __call__(self, run: Any, evaluation: Any) -> str | None:
        if not LEARNING < evaluation.mean < PASSED:
            return None
        path = self.folder / str(evaluation.steps)
        mean = record_data(run, path, 100, greedy=False, seed=self.seed).mean_return
        if abs(mean - MEDIUM) > AROUND:
            return None
        self.found = Recorded(str(path), mean, mean)
        return "stop"
