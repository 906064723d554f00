"""Every algorithm reaches its goals, with one seed; `make gate NAME` takes five."""

from __future__ import annotations

import json
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


def test_what_is_tuned_is_not_put_among_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = replace(gate.GATES["ddpg"][0], algorithm="pg", env="Bandit", steps=500, episodes=3)
    monkeypatch.setitem(gate.GATES, "ddpg", (tried,))
    words = ["gate.py", "ddpg", "--seeds", "11", "--set", '{"lr": 0.02}']
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit):
        gate.main()
    assert "--out" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [*words, "--out", str(tmp_path / "tried.json")])
    monkeypatch.setattr(gate, "attempt", lambda goal, seed: outcome(seed, goal.settings["lr"]))
    gate.main()
    assert json.loads((tmp_path / "tried.json").read_text())[0]["score"] == 0.02


def outcome(seed: int, score: float, passed: bool = True) -> Outcome:
    return Outcome(seed=seed, score=score, passed=passed, steps=10, seconds=1.0)


def test_all_seeds_and_their_median_have_to_pass() -> None:
    goal = Goal(algorithm="sac", env="Pendulum-v1", steps=10, each=-200, median=-180)
    assert gate.reached(goal, [outcome(1, -199), outcome(2, -179), outcome(3, -150)])
    assert not gate.reached(goal, [outcome(1, -199), outcome(2, -190), outcome(3, -150)])
    assert not gate.reached(goal, [outcome(1, -201, passed=False), outcome(2, -150)])


RIVAL = Goal(algorithm="dqn", env="Bandit", steps=10, each=0)
BESIDE = Goal(algorithm="rainbow", env="Bandit", steps=10, each=0, median=5, rival=RIVAL)


def test_a_median_below_the_rivals_does_not_pass() -> None:
    """Whatever single seeds have: 3, 5 and 9 beside 4, 4 and 20."""
    rows = [outcome(seed, score) for seed, score in enumerate((3.0, 5.0, 9.0))]
    assert gate.reached(BESIDE, rows, [4.0, 4.0, 20.0])
    assert not gate.reached(BESIDE, rows, [4.0, 6.0, 20.0])


def test_beside_a_rival_that_was_not_attempted_nothing_is_reached(tmp_path: Path) -> None:
    path, rows = tmp_path / "rainbow.json", [outcome(1, 9.0), outcome(2, 9.0)]
    gate.keep(path, RIVAL, outcome(1, 4.0))
    gate.keep(path, RIVAL, outcome(3, 20.0))
    assert gate.rivals_scores(path, BESIDE, (1, 2)) == [4.0]
    assert not gate.reached(BESIDE, rows, [4.0])
    gate.keep(path, RIVAL, outcome(2, 5.0))
    assert gate.reached(BESIDE, rows, gate.rivals_scores(path, BESIDE, (1, 2)))


def test_every_rival_is_a_goal_of_its_gate() -> None:
    for goals in gate.GATES.values():
        assert all(goal.rival is None or goal.rival in goals for goal in goals)


def test_rows_measured_side_by_side_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal, parts = gate.GATES["ddpg"][0], []
    gate.keep(tmp_path / "ddpg.json", goal, outcome(202, -1000.0))
    for seed in (203, 201, 202):
        parts.append(tmp_path / f"part-{seed}.json")
        gate.keep(parts[-1], goal, outcome(seed, -150.0))
    words = ["gate.py", "ddpg", "--results", str(tmp_path), "--merge", *map(str, parts)]
    monkeypatch.setattr(sys, "argv", words)
    assert gate.main() == 0
    rows = json.loads((tmp_path / "ddpg.json").read_text())
    assert [(row["seed"], row["score"]) for row in rows] == [
        (201, -150.0),
        (202, -150.0),
        (203, -150.0),
    ]


def test_a_new_attempt_replaces_the_older_one(tmp_path: Path) -> None:
    goal, path = Goal(algorithm="sac", env="Bandit", steps=10, each=0), tmp_path / "sac.json"
    for seed, score in ((202, 1.0), (201, 2.0), (202, 3.0)):
        gate.keep(path, goal, outcome(seed, score))
    assert [(row["seed"], row["score"]) for row in json.loads(path.read_text())] == [
        (201, 2.0),
        (202, 3.0),
    ]


def test_a_policy_that_is_frozen_early_is_judged_on_fresh_episodes() -> None:
    goal = Goal(algorithm="ppo", env="Bandit", steps=40_000, each=0.99, frozen=True, episodes=20)
    found = attempt(goal, 1)
    assert found.passed
    assert found.steps < 40_000
