from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.results import Evaluation, evaluate
from rillflow.runs.train import Trained
from tests.results.policies import Endless, Lottery, untrained

FOUR = Evaluation(returns=(1.0, 2.0, 3.0, 10.0), lengths=(1, 2, 3, 4), algorithm="ppo", env="Toy")


def test_figures_by_hand() -> None:
    assert (FOUR.episodes, FOUR.mean, FOUR.median, FOUR.iqm) == (4, 4.0, 2.5, 2.5)
    assert FOUR.std == pytest.approx(math.sqrt((9 + 4 + 1 + 36) / 3))
    assert (FOUR.min, FOUR.max) == (1.0, 10.0)
    assert FOUR.mean_interval[0] < 4.0 < FOUR.mean_interval[1]
    assert FOUR.iqm_interval[0] <= 2.5 <= FOUR.iqm_interval[1]


def test_it_prints_as_a_small_table() -> None:
    lines = str(FOUR).splitlines()
    assert lines[0] == "ppo on Toy: 4 episodes, greedy actions, seed 0"
    assert lines[2].startswith("  mean return   4.00   95% in [")
    assert "  max          10.00" in lines
    assert max(map(len, lines)) <= 80


def test_it_is_strict_json() -> None:
    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is not JSON")

    data = json.loads(FOUR.to_json(), parse_constant=refuse)
    assert data["mean"] == 4.0
    assert data["returns"] == [1.0, 2.0, 3.0, 10.0]
    assert data["iqm_interval"] == list(FOUR.iqm_interval)
    one = dataclasses.replace(FOUR, returns=(1.0,), lengths=(5,))
    assert json.loads(one.to_json(), parse_constant=refuse)["std"] is None


def test_a_trained_policy_is_evaluated_the_same_way_twice(cartpole: Trained) -> None:
    found = evaluate(cartpole, 30, seed=5)
    assert found == evaluate(cartpole, 30, seed=5)
    assert found.returns != evaluate(cartpole, 30, seed=6).returns
    assert found.episodes == 30
    assert found.returns == tuple(map(float, found.lengths)), "a step of CartPole pays 1"
    assert found.mean > 40, "a random policy gets about 20"
    assert (found.algorithm, found.env) == ("ppo", "CartPole-v1")


@pytest.mark.parametrize("episodes", [3, 50])
def test_every_environment_plays_its_share_to_the_end(episodes: int) -> None:
    """The first episodes of each copy, short or long, as played one by one without rillflow."""
    trained = untrained(Lottery)
    copies = min(episodes, 20)
    expected = []
    for copy in range(copies):
        env = Lottery()
        obs, _ = env.reset(seed=9 + copy)
        for _ in range(episodes // copies + (copy < episodes % copies)):
            total, length, ended = 0.0, 0, False
            while not ended:
                obs, reward, ended, _, _ = env.step(trained.act(obs))
                total, length = total + reward, length + 1
            expected.append((total, length))
            obs, _ = env.reset()
    found = evaluate(trained, episodes, seed=9)
    assert list(zip(found.returns, found.lengths, strict=True)) == expected


def test_a_policy_that_remembers_begins_each_episode_with_nothing(remembering: Trained) -> None:
    trained = untrained(Lottery, "impala", model="lstm", lstm_size=8)
    env, expected = Lottery(), []
    obs, _ = env.reset(seed=4)
    for _ in range(1):
        total, ended, start = 0.0, False, True
        while not ended:
            obs, reward, ended, _, _ = env.step(trained.act(obs, starts=start))
            total, start = total + reward, False
        expected.append(total)
    assert evaluate(trained, 1, seed=4).returns == tuple(expected)
    found = evaluate(remembering, 25)
    assert found == evaluate(remembering, 25)
    assert min(found.returns) >= 8, "a pole takes that long to fall"


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_sampled_actions_differ_from_greedy_ones_and_follow_the_seed(algorithm: str) -> None:
    trained = untrained(Lottery, algorithm)
    greedy, sampled = evaluate(trained, 20), evaluate(trained, 20, greedy=False)
    assert sampled == evaluate(trained, 20, greedy=False)
    assert sampled.lengths == greedy.lengths, "luck does not depend on actions here"
    assert sampled.returns != greedy.returns


def test_a_policy_that_remembers_can_sample(remembering: Trained) -> None:
    sampled = evaluate(remembering, 5, greedy=False)
    assert sampled == evaluate(remembering, 5, greedy=False)


def test_an_atari_game_is_scored_as_the_game_does() -> None:
    """Learning clips rewards to 1; a pellet in MsPacman is worth 10."""
    trained = untrained("ALE/MsPacman-v5", env_config={"noop_max": 1})
    found = evaluate(trained, 1)
    assert found.mean >= 60
    assert found.mean % 10 == 0


def test_evaluating_leaves_the_policy_as_it_was(remembering: Trained) -> None:
    obs = np.ones(2, np.float32)
    first = [remembering.act(obs, starts=True), remembering.act(obs)]
    second = [remembering.act(obs, starts=True)]
    evaluate(remembering, 2, greedy=False)
    second.append(remembering.act(obs))
    assert first == second


def test_mistakes_are_told(cartpole: Trained) -> None:
    with pytest.raises(rf.BuildError, match="episodes must be a whole number of at least 1, got 0"):
        evaluate(cartpole, 0)
    with pytest.raises(rf.RunError, match="did not end in 50 steps: give the environment a limit"):
        evaluate(untrained(Endless), 2, max_steps=50)
    lost = untrained(Lottery)
    lost.config = dataclasses.replace(lost.config, env=None)
    with pytest.raises(rf.BuildError, match="load it with env="):
        evaluate(lost)
    cartpole_in_lottery = untrained("CartPole-v1")
    cartpole_in_lottery.config = dataclasses.replace(lost.config, env=Lottery)
    with pytest.raises(rf.BuildError, match=r"shape \[4\], and 'Lottery' shows \[3\]"):
        evaluate(cartpole_in_lottery)
