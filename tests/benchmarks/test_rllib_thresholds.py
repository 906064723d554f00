"""RLlib's thresholds: rows are told apart, attempted as RLlib counts, kept, and shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))  # they are scripts: they find each other by their folder

import rllib_thresholds  # noqa: E402
from _rllib_envs import (  # noqa: E402
    RepeatAfterMe,
    transformed_pendulum,
    two_poles_without_velocities,
)
from _rllib_rows import ROWS, Row  # noqa: E402

from docs.generate import rllib_thresholds as shown  # noqa: E402


def test_rows_are_told_apart_by_their_names() -> None:
    assert len({str(row) for row in ROWS}) == len(ROWS)


def test_rows_can_be_chosen_by_how_their_name_begins() -> None:
    found = rllib_thresholds.chosen(["ppo on Pend", "td3"])
    assert {row.algorithm for row in found} >= {"ppo", "td3"}
    assert all(str(row).startswith(("ppo on Pend", "td3")) for row in found)


def test_a_bit_is_repeated_after_two_steps() -> None:
    env = RepeatAfterMe(delay=2)
    seen = [0, 0, env.reset(seed=1)[0]]
    total, over = 0.0, False
    while not over:
        obs, reward, over, cut, _ = env.step(seen[-3])
        seen.append(obs)
        total += reward
        assert not cut
    assert total == env.length == 100
    env.reset(seed=1)
    assert env.step(1)[1] == -1  # what lies before the first step is 0


def test_numbers_cost_their_distances() -> None:
    env = RepeatAfterMe(delay=0, continuous=True)
    obs, _ = env.reset(seed=1)
    assert env.step(obs)[1] == 0
    obs = env.shown[-1]
    assert env.step(obs + np.float32([0.25, -0.5]))[1] == pytest.approx(-0.75)


def test_torques_in_other_units_are_the_same_torques() -> None:
    env = transformed_pendulum()
    assert (env.action_space.low, env.action_space.high) == (300, 500)
    for torque, same in ((-2.0, 300.0), (0.0, 400.0), (1.0, 450.0)):
        env.reset(seed=1)
        plain = env.unwrapped
        env.step(np.float32([same]))
        assert plain.last_u == pytest.approx(torque, abs=1e-4)


def test_agents_side_by_side_end_each_for_itself() -> None:
    env = two_poles_without_velocities()
    first, _ = env.reset(seed=1)
    assert {agent: obs.shape for agent, obs in first.items()} == {"agent_0": (2,), "agent_1": (2,)}
    assert not np.array_equal(first["agent_0"], first["agent_1"])
    alive = []
    for t in range(60):  # one pushes to one side until it falls, the other one to and fro
        _, rewards, terminated, _, _ = env.step({"agent_0": 1, "agent_1": t % 2})
        alive.append(set(rewards))
        if terminated.get("agent_0"):
            break
    assert alive[-1] == {"agent_0", "agent_1"}
    assert env.agents == ["agent_1"]
    env.reset()
    assert env.agents == env.possible_agents


@pytest.mark.parametrize("greedy", [False, True])
def test_an_attempt_ends_where_it_is_reached(greedy: bool) -> None:
    row = Row(
        algorithm="ppo", env="Bandit", asks=0.9, within=30_000, source="", greedy=greedy
    )  # fmt: skip
    found = rllib_thresholds.attempt(row, 1)
    assert found["passed"]
    assert found["steps"] < 30_000
    assert found["score"] >= 0.9


def test_who_only_seemed_to_pass_is_judged_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row(algorithm="ppo", env="Bandit", asks=0.9, within=20_000, source="", greedy=True)
    real, found = rllib_thresholds.evaluate, []

    class Bad:
        mean = 0.1

    def first_bad(*args: Any, **how: Any) -> Any:
        found.append(Bad if not found else real(*args, **how))
        return found[-1]

    monkeypatch.setattr(rllib_thresholds, "evaluate", first_bad)
    attempt = rllib_thresholds.attempt(row, 1)
    assert len(found) == 2
    assert attempt["passed"]
    assert attempt["steps"] >= row.within


def test_a_limit_that_comes_first_is_a_failure() -> None:
    row = Row(algorithm="ppo", env="Identity", asks=9.9, within=1000, source="")
    found = rllib_thresholds.attempt(row, 1)
    assert not found["passed"]
    assert found["score"] < 9.9


def test_a_new_attempt_replaces_the_older_one_of_its_row_and_seed(tmp_path: Path) -> None:
    path = tmp_path / "rllib" / "thresholds.json"
    row = ROWS[0]
    for seed, score in ((201, 1.0), (202, 2.0), (201, 3.0)):
        rllib_thresholds.keep(path, row, attempted(seed, score))
    kept = json.loads(path.read_text())
    assert [(one["seed"], one["score"]) for one in kept] == [(201, 3.0), (202, 2.0)]
    assert all(one["commit"] and one["asks"] == row.asks for one in kept)


def test_attempts_made_side_by_side_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, parts = tmp_path / "thresholds.json", [tmp_path / f"{seed}.json" for seed in (202, 201)]
    rllib_thresholds.keep(path, ROWS[0], attempted(201, 0.0, passed=False))
    for part, seed in zip(parts, (202, 201), strict=True):
        rllib_thresholds.keep(part, ROWS[0], attempted(seed, 5.0))
    words = ["rllib_thresholds.py", "--out", str(path), "--merge", *map(str, parts)]
    monkeypatch.setattr(sys, "argv", words)
    assert rllib_thresholds.main() == 0
    kept = json.loads(path.read_text())
    assert [(one["seed"], one["score"]) for one in kept] == [(201, 5.0), (202, 5.0)]


def attempted(seed: int, score: float, passed: bool = True) -> dict[str, Any]:
    return {"seed": seed, "score": score, "steps": 10, "seconds": 1.0, "passed": passed}


def test_the_page_names_what_fails_and_what_was_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seeds of three are not enough; two alone say nothing yet."""
    path = tmp_path / "thresholds.json"
    good, bad, few, none = [row for row in ROWS if row.algorithm == "ppo"][:4]
    for row, passes in (
        (good, (True, True, True)),
        (bad, (True, False, True)),
        (few, (True, True)),
    ):
        for seed, passed in enumerate(passes):
            rllib_thresholds.keep(path, row, attempted(seed, 7.0 if passed else 3.0, passed))
    monkeypatch.setattr(shown, "measured", lambda original=shown.measured: original(path))
    text = shown.page()
    assert text.startswith("1 of 2 rows are held by all 3 seeds. ")
    assert f"- {bad}: 2 of 3 seeds reach {bad.asks:g}." in text
    assert "7, **3**, 7" in text
    missing = text.partition("## Not measured yet")[2]
    assert f"- {none}\n" in missing
    assert f"- {few}: 2 of 3 seeds so far, which pass" in missing
    assert f"- {good}" not in text
