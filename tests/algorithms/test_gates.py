"""Every algorithm reaches its goals, with one seed; `make gate NAME` takes five."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))  # they are scripts: they find each other by their folder

import gate  # noqa: E402
from _goals import Goal, Outcome, attempt  # noqa: E402

SEED = 301
"""one that neither tuning nor the five of `make gate` use"""
GOALS = [goal for goals in gate.GATES.values() for goal in goals]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_reaches_its_goal(goal: Goal) -> None:
    if "MinAtar" in str(goal):
        pytest.importorskip("minatar", reason="MinAtar is not installed")
    outcome = attempt(goal, SEED)
    assert outcome.passed, outcome


def outcome(seed: int, score: float, passed: bool = True) -> Outcome:
    return Outcome(seed=seed, score=score, passed=passed, steps=10, seconds=1.0)


def test_all_seeds_and_their_median_have_to_pass() -> None:
    goal = Goal(algorithm="sac", env="Pendulum-v1", steps=10, each=-200, median=-180)
    assert gate.reached(goal, [outcome(1, -199), outcome(2, -179), outcome(3, -150)])
    assert not gate.reached(goal, [outcome(1, -199), outcome(2, -190), outcome(3, -150)])
    assert not gate.reached(goal, [outcome(1, -201, passed=False), outcome(2, -150)])


def test_a_median_below_the_rivals_does_not_pass() -> None:
    """Whatever single seeds have: 3, 5 and 9 beside 4, 4 and 20."""
    rival = Goal(algorithm="dqn", env="Bandit", steps=10, each=0)
    goal = Goal(algorithm="rainbow", env="Bandit", steps=10, each=0, median=5, rival=rival)
    scores = [(3.0, 4.0), (5.0, 4.0), (9.0, 20.0)]
    rows = [replace(outcome(i, own), details={"rival": its}) for i, (own, its) in enumerate(scores)]
    assert gate.reached(goal, rows)
    assert not gate.reached(goal, [replace(row, details={"rival": 6.0}) for row in rows])


def test_a_rival_is_trained_with_the_same_seed() -> None:
    rival = Goal(algorithm="ppo", env="Bandit", steps=500, each=0, episodes=3)
    goal = Goal(algorithm="ppo", env="Bandit", steps=500, each=0, episodes=3, rival=rival)
    found = attempt(goal, 1)
    assert found.details["rival"] == found.score


def test_a_new_attempt_replaces_the_older_one(tmp_path: Path) -> None:
    goal, path = Goal(algorithm="sac", env="Bandit", steps=10, each=0), tmp_path / "sac.json"
    for seed, score in ((202, 1.0), (201, 2.0), (202, 3.0)):
        gate.keep(path, goal, outcome(seed, score))
    import json

    assert [(row["seed"], row["score"]) for row in json.loads(path.read_text())] == [
        (201, 2.0),
        (202, 3.0),
    ]


def test_a_policy_that_is_frozen_early_is_judged_on_fresh_episodes() -> None:
    goal = Goal(algorithm="ppo", env="Bandit", steps=40_000, each=0.99, frozen=True, episodes=20)
    found = attempt(goal, 1)
    assert found.passed
    assert found.steps < 40_000
