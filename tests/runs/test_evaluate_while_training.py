"""Evaluation during training: training stays what it is, whatever becomes of the evaluation."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rillflow as rf
from rillflow.errors import BuildError, RunError

SMALL: dict[str, Any] = {
    "num_workers": 1,
    "num_envs_per_worker": 8,
    "train_batch_size": 256,
    "sgd_minibatch_size": 128,
    "num_sgd_iter": 1,
}


def figures(trained: Any) -> list[dict[str, float]]:
    """The history without what evaluations and the clock say."""
    return [
        {name: v for name, v in row.items() if "eval_" not in name and name != "seconds"}
        for row in trained.history
    ]


def evaluated(trained: Any) -> list[tuple[float, float]]:
    return [
        (row["eval_steps"], row["eval_return"]) for row in trained.history if "eval_return" in row
    ]


def due(trained: Any, every: int) -> list[float]:
    """The first steps of a history at or after each multiple of an interval, and its last."""
    steps = [row["steps"] for row in trained.history]
    found = {next(n for n in steps if n >= at) for at in range(every, int(steps[-1]), every)}
    return sorted(found | {steps[-1]})


def plays_elsewhere() -> bool:
    """Whether this process is the one that evaluates."""
    return "evaluator" in getattr(sys.stdout, "prefix", "")


class Troubled(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that does what it should in workers, and not where it is evaluated."""

    def __init__(self, trouble: str = "raise") -> None:
        super().__init__(gym.make("CartPole-v1"))
        self.trouble = trouble if plays_elsewhere() else ""

    def step(self, action: Any) -> Any:
        if self.trouble == "raise":
            raise ValueError("not in an evaluation")
        if self.trouble == "die":
            os._exit(3)
        while self.trouble == "hang":
            time.sleep(60)
        return super().step(action)


class Global(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that draws from the generator that everybody shares."""

    def __init__(self) -> None:
        super().__init__(gym.make("CartPole-v1"))

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, float(reward) + np.random.random(), *rest


@pytest.mark.parametrize("env", ["CartPole-v1", Global])
def test_training_is_the_same_with_evaluations_and_without(env: Any) -> None:
    np.random.seed(3)
    plain = rf.train("ppo", env, until=1500, engine="sim", **SMALL)
    np.random.seed(3)
    trained = rf.train(
        "ppo", env, until=1500, engine="sim", eval_every=500, eval_episodes=3, **SMALL
    )
    assert figures(plain) == figures(trained)
    assert all((plain.weights[name] == trained.weights[name]).all() for name in plain.weights)
    assert [steps for steps, _ in evaluated(trained)] == due(trained, 500)


def test_the_same_seed_gives_the_same_evaluations() -> None:
    runs = [
        evaluated(rf.train("dqn", until=1500, engine="sim", eval_every=400, eval_episodes=3))
        for _ in range(2)
    ]
    assert len(runs[0]) >= 3
    assert runs[0] == runs[1]


def test_an_interval_shorter_than_a_step_of_training_gives_one_evaluation_each() -> None:
    trained = rf.train("ppo", until=1024, engine="sim", eval_every=10, eval_episodes=2, **SMALL)
    assert [steps for steps, _ in evaluated(trained)] == [r["steps"] for r in trained.history]


def test_without_workers_of_their_own_environments_are_evaluated_too() -> None:
    settings = {**SMALL, "num_workers": 0}
    trained = rf.train("ppo", until=600, engine="sim", eval_every=300, eval_episodes=2, **settings)
    assert [steps for steps, _ in evaluated(trained)] == due(trained, 300)


def test_several_agents_have_a_figure_for_each_policy() -> None:
    trained = rf.train(
        "ppo",
        "MultiAgentCartPole",
        until=600,
        engine="sim",
        policies="each",
        eval_every=300,
        eval_episodes=2,
        **SMALL,
    )
    row = trained.history[-1]
    names = [f"{policy}/eval_return" for policy in trained.policies]
    assert row["eval_return"] == pytest.approx(np.mean([row[name] for name in names]))
    assert trained.best is not None
    assert trained.best.policies.keys() == trained.policies.keys()


@pytest.mark.slow
def test_a_policy_that_remembers_is_evaluated() -> None:
    trained = rf.train(
        "impala",
        until=600,
        engine="sim",
        model="lstm",
        lstm_size=8,
        num_workers=1,
        num_envs_per_worker=4,
        eval_every=300,
        eval_episodes=2,
    )
    assert evaluated(trained)


def test_the_figures_are_those_of_evaluating_the_policy_afterwards() -> None:
    trained = rf.train("ppo", until=600, engine="sim", eval_every=300, eval_episodes=4, **SMALL)
    assert trained.history[-1]["eval_return"] == np.mean(trained.evaluate(4))


@pytest.mark.proc
def test_on_processes_training_is_the_same_and_the_last_policy_is_evaluated() -> None:
    plain = rf.train("ppo", until=1500, **SMALL)
    trained = rf.train("ppo", until=1500, eval_every=400, eval_episodes=4, **SMALL)
    assert all((plain.weights[name] == trained.weights[name]).all() for name in plain.weights)
    steps, mean = evaluated(trained)[-1]
    assert steps == trained.history[-1]["steps"]
    assert mean == np.mean(trained.evaluate(4))


@pytest.mark.proc
@pytest.mark.parametrize(
    ("trouble", "told"),
    [("raise", "not in an evaluation"), ("die", "code 3"), ("hang", "no answer")],
)
def test_evaluations_that_fail_do_not_end_training(trouble: str, told: str) -> None:
    """They are told, and left out."""
    how: dict[str, Any] = {"env_config": {"trouble": trouble}, "max_eval_failures": 1000}
    how["eval_timeout"] = 0.2 if trouble == "hang" else None
    with pytest.warns(UserWarning, match="failed and is left out") as seen:
        trained = rf.train("ppo", Troubled, until=8000, eval_every=256, **how, **SMALL)
    assert told in str(seen[0].message)
    assert evaluated(trained) == []
    assert trained.history[-1]["steps"] >= 8000


@pytest.mark.proc
def test_evaluations_that_all_fail_end_the_run() -> None:
    with (
        pytest.warns(UserWarning, match="1 of 2 in a row"),
        pytest.raises(RunError, match="2 evaluations in a row have failed, the last with") as error,
    ):
        rf.train(
            "ppo", Troubled, until={"seconds": 60}, eval_every=256, max_eval_failures=2, **SMALL
        )
    assert "not in an evaluation" in str(error.value)


def test_environments_that_are_made_already_are_refused() -> None:
    made = gym.make_vec("CartPole-v1", num_envs=8)
    with pytest.raises(BuildError, match="give a function that makes it"):
        rf.train("ppo", made, until=256, engine="sim", eval_every=256, **SMALL)
    made.close()


@pytest.mark.parametrize(
    "wrong",
    [{"eval_every": 0}, {"eval_episodes": 0}, {"eval_timeout": -1.0}, {"max_eval_failures": 0}],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BuildError, match=next(iter(wrong))):
        rf.train("ppo", until=256, **wrong)


def test_a_run_ends_when_its_evaluation_is_good_enough() -> None:
    """Though the return of training is not."""
    until = {"eval_return": 100.0, "steps": 50_000}
    trained = rf.train(
        "ppo", until=until, engine="sim", eval_every=2000, eval_episodes=3, num_workers=1
    )
    last = trained.history[-1]
    assert last["eval_return"] >= 100.0 > last["return"]
    assert last["steps"] < 50_000


def test_a_limit_of_evaluations_sets_an_interval_and_says_so() -> None:
    with pytest.warns(UserWarning, match="eval_every is 10,000 steps"):
        rf.train("ppo", until={"eval_return": 1e9, "steps": 256}, engine="sim", **SMALL)


@pytest.mark.slow
@pytest.mark.proc
def test_apex_stops_by_its_evaluation(tmp_path: Path) -> None:
    """While its exploring workers hold the return of training down."""
    trained = rf.train(
        "apex", "CartPole-v1", until={"eval_return": 475, "steps": 300_000}, eval_every=10_000
    )
    last = trained.history[-1]
    assert last["eval_return"] >= 475 > last["return"]
