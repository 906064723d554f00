"""How algorithms that learn from data are judged: beside their data, and beside BC on the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from _goals import FRESH, Goal, Outcome
from _recorded import Recorded, cartpole_expert, cartpole_mixed, pendulum_expert, pendulum_medium

import rillflow as rf
from rillflow.algorithms import cql
from rillflow.learning import losses
from rillflow.results import evaluate

RANDOM = -1230.0
"""mean return of random actions on Pendulum-v1"""
BC_ROWS = 500_000
"""that BC learns from where it is what others are compared with: it gains nothing after that"""

EXPERTS = 8
"""whose mixtures are tried until there is one on which BC stays below half"""

OF_OTHERS = "q_of_others"
"""what critics think of actions, whether there are such in the data or not"""
TORQUES = (-2.0, -1.0, 0.0, 1.0, 2.0)
"""that stand for any"""


def learned(
    goal: Goal, data: Recorded, seed: int, algorithm: str | None = None, most: int = 10**9
) -> Any:
    """The return of the last policy in fresh episodes, its steps, and seconds of training."""
    return taught(goal, data, seed, algorithm, most)[1:]


def taught(
    goal: Goal, data: Recorded, seed: int, algorithm: str | None = None, most: int = 10**9
) -> Any:
    """The same, after the policy."""
    settings = dict(goal.settings) if algorithm is None else {}
    began = time.perf_counter()
    trained = rf.train(
        algorithm or goal.algorithm, goal.env, until=min(goal.steps, most), engine="sim", seed=seed,
        data=data.path, **{"eval_every": None, **settings},
    )  # fmt: skip
    seconds = time.perf_counter() - began
    score = evaluate(trained, goal.episodes, seed=FRESH + seed).mean
    return trained, score, int(trained.history[-1]["steps"]), round(seconds, 1)


def part_of_data(data_of: Callable[[int], Recorded], nothing: float = 0.0) -> Any:
    """A judge: the return as a part of that of the data, counted from what chance gives."""

    def judge(goal: Goal, seed: int) -> Outcome:
        data = data_of(seed)
        score, steps, seconds = learned(goal, data, seed)
        part = round((score - nothing) / (data.mean - nothing), 3)
        details = {"return": round(score, 1), "data": round(data.mean, 1)}
        return _outcome(seed, part, part >= goal.each, steps, seconds, details)

    return judge


def where_imitation_fails(goal: Goal, seed: int) -> Outcome:
    """A judge: the part of the expert's return, on data on which BC stays below half of it.

    Not on every such mixture it does. The opposite falls after some ten steps, so all of its steps
    are near the start, and greedy BC does what was done more often there. An expert that keeps to
    where it started outnumbers it, and BC is as good as the expert. Such a mixture says nothing of
    MARWIL, and another expert's is taken, before MARWIL has seen any.
    """
    for expert in range(EXPERTS):
        data = cartpole_mixed(seed, expert)
        cloned, *_ = learned(goal, data, seed, "bc", BC_ROWS)
        other = round(cloned / data.best, 3)
        if other < 0.5:
            break
    score, steps, seconds = learned(goal, data, seed)
    part = round(score / data.best, 3)
    details = {
        "return": round(score, 1), "expert": round(data.best, 1), "bc": other,
        "mixtures": expert + 1,
    }  # fmt: skip
    return _outcome(seed, part, part >= goal.each and other < 0.5, steps, seconds, details)


def above_data_and_bc(goal: Goal, seed: int) -> Outcome:
    """A judge: how far the return is above that of the data and above BC's, whichever is more.

    Of critics that say so, the data's actions have to be worth more than others, too.
    """
    data = pendulum_medium(seed)
    trained, score, steps, seconds = taught(goal, data, seed)
    cloned, *_ = learned(goal, data, seed, "bc", BC_ROWS)
    details = {"return": round(score, 1), "data": round(data.mean, 1), "bc": round(cloned, 1)}
    above, last = round(score - max(data.mean, cloned), 1), trained.history[-1]
    passed = above > goal.each
    if OF_OTHERS in last:
        details |= {"mean_q": round(last["mean_q"], 2), OF_OTHERS: round(last[OF_OTHERS], 2)}
        passed &= last["mean_q"] > last[OF_OTHERS]
    return _outcome(seed, above, passed, steps, seconds, details)


def comparing(m: Any, rows: Any, cfg: Any) -> Any:
    """CQL's update, which also tells what torques of all sizes are worth; `mean_q` tells what those
    of the data are. Nothing is drawn for that: the run is the one that there is without.
    """
    steps = cql.update(m, rows, cfg)
    critics = next(steps)
    everywhere = (m.frozen.q(rows.obs, rows.actions * 0 + torque) for torque in TORQUES)
    others = sum(map(losses.mean, everywhere)) / len(TORQUES)
    yield replace(critics, stats={**critics.stats, OF_OTHERS: others})
    yield from steps


def _outcome(
    seed: int, score: float, passed: bool, steps: int, seconds: float, details: Any
) -> Outcome:
    return Outcome(
        seed=seed, score=score, passed=passed, steps=steps, seconds=seconds, details=details
    )


GOALS: dict[str, tuple[Goal, ...]] = {
    "bc": (
        Goal(
            algorithm="bc", env="CartPole-v1", steps=500_000, each=0.95,
            judge=part_of_data(cartpole_expert),
            called="bc on CartPole-v1, part of the expert's return",
        ),
        Goal(
            algorithm="bc", env="Pendulum-v1", steps=1_000_000, each=0.95,
            judge=part_of_data(pendulum_expert, RANDOM),
            called="bc on Pendulum-v1, part of the way from random to the expert",
        ),
    ),
    "marwil": (
        Goal(
            algorithm="marwil", env="CartPole-v1", steps=500_000, each=0.9,
            judge=where_imitation_fails,
            called="marwil on CartPole-v1, part of the expert's return, half of the data bad",
        ),
    ),
    "cql": (
        Goal(
            algorithm="cql", env="Pendulum-v1", steps=1_024_000, each=0,
            judge=above_data_and_bc, settings={"update": comparing},
            called="cql on Pendulum-v1, return above its data (about -600) and above BC",
        ),
    ),
    "iql": (
        Goal(
            algorithm="iql", env="Pendulum-v1", steps=1_280_000, each=0,
            judge=above_data_and_bc,
            called="iql on Pendulum-v1, return above its data (about -600) and above BC",
        ),
    ),
}  # fmt: skip
