"""What an algorithm has to reach, and one attempt at it: training, then fresh greedy episodes.

Two forms. By default the *last* policy counts: training goes to its limit of steps. With `frozen`
it ends when an evaluation on the way first seems to pass, and that policy is judged. Either way the
score is the mean of greedy episodes that were never played before, in the environment itself.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rillflow as rf
from rillflow.results import evaluate

FRESH = 90_000
"""seed of the episodes that judge; evaluations on the way have others"""
LOOKS = 40
"""evaluations on the way to a limit"""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What the policy of every seed has to reach, and within how many steps."""

    algorithm: str
    env: Any
    steps: int
    """at most; of the environment, or of rows where none is played"""
    each: float
    """score that every seed has to reach"""
    median: float | None = None
    """score that the median of the seeds has to reach, where it is another"""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """beside the defaults"""
    frozen: bool = False
    """stop at the first evaluation that seems to pass, and judge that policy"""
    episodes: int = 100
    """greedy ones, whose mean is the score"""
    called: str | None = None
    """a name for the report, where algorithm and environment do not say it"""
    rival: Goal | None = None
    """another goal of the gate, attempted with the same seeds: its median must not be above the own
    one"""
    judge: Callable[[Goal, int], Outcome] | None = None
    """another way to attempt it, `judge(goal, seed)`; None: train and play"""

    def __str__(self) -> str:
        return self.called or f"{self.algorithm} on {self.env}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one attempt."""

    seed: int
    score: float
    passed: bool
    steps: int
    seconds: float
    """of training"""
    details: Mapping[str, Any] = field(default_factory=dict)


def attempt(goal: Goal, seed: int) -> Outcome:
    """Train with this seed on `sim`, one thread, and judge the policy."""
    return (goal.judge or train_and_play)(goal, seed)


def train_and_play(goal: Goal, seed: int) -> Outcome:
    """The usual attempt."""
    until: dict[str, float] = {"steps": goal.steps}
    settings = dict(goal.settings)
    if goal.frozen:
        until["eval_return"] = goal.each if goal.median is None else max(goal.each, goal.median)
        settings = {"eval_every": max(1, goal.steps // LOOKS), "eval_episodes": 50, **settings}
    began = time.perf_counter()
    trained = rf.train(goal.algorithm, goal.env, until=until, seed=seed, engine="sim", **settings)
    seconds = time.perf_counter() - began
    score = evaluate(trained, goal.episodes, seed=FRESH + seed).mean
    return Outcome(
        seed=seed,
        score=round(score, 2),
        passed=score >= goal.each,
        steps=int(trained.history[-1]["steps"]),
        seconds=round(seconds, 1),
    )


def commit() -> str:
    """The commit that was measured, with `+` where the tree had changes."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()
