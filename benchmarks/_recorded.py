"""Datasets for goals and curves of algorithms that learn from data: made anew from a seed."""

from __future__ import annotations

import tempfile
from functools import cache
from itertools import product
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
STOPS = (-600, -700, -500, -650, -550, -800, -450, -750)
"""greedy returns at which who makes them is stopped, until its data are as they should be"""
TRIES = 3
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
    """100 episodes, actions drawn, of a SAC that learns slowly and is stopped at about -600.

    It passes through -600 quickly, and its drawn actions are worth other than its greedy ones: it
    is stopped at one greedy return after another until the data themselves are of about -600. One
    that jumps over that is replaced by another.
    """
    slow = {"lr": 5e-4, "training_intensity": 128.0}
    for again, stop in product(range(TRIES), STOPS):
        path = _place(f"pendulum-medium{stop}-{again}", seed)
        trained = rf.train(
            "sac", "Pendulum-v1", until={"steps": 20_000, "eval_return": stop}, engine="sim",
            seed=seed + 1000 * again, eval_every=50, eval_episodes=50, **slow,
        )  # fmt: skip
        found = record_data(trained, path, 100, greedy=False, seed=seed)
        if abs(found.mean_return - MEDIUM) <= AROUND:
            return Recorded(str(path), found.mean_return, found.mean_return)
    raise RuntimeError(f"no policy of seed {seed} is within {AROUND} of {MEDIUM}: add to STOPS")
