"""MAML: the same everywhere, the same twice, and it learns to adapt to tasks it never saw."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import maml
from rillflow.envs.toy_base import Array, Bools
from rillflow.envs.toy_point_goal import Goal, PointGoal, sample_goals
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.runs.train import Trained, train

STEPS = 200_000
UNSEEN = sample_goals(20, seed=12345)


def figures(rows: Any) -> list[dict[str, float]]:
    """Rows without the clock."""
    return [{k: v for k, v in row.items() if k != "seconds" and not np.isnan(v)} for row in rows]


def short(engine: str, **settings: Any) -> Trained:
    small = {"num_workers": 2, "num_envs_per_worker": 4, "inner_adaptation_steps": 2, **settings}
    return train("maml", until={"steps": 1500}, seed=3, engine=engine, **small)


def test_same_seed_same_run() -> None:
    """Bit for bit on sim."""
    one, two = short("sim"), short("sim")
    assert figures(one.history) == figures(two.history)
    assert all(np.array_equal(one.weights[k], two.weights[k]) for k in one.weights)


@pytest.mark.proc
def test_processes_give_the_same_numbers() -> None:
    """A synchronous plan: where it runs makes no difference."""
    assert figures(short("sim").history) == figures(short("local").history)


@pytest.mark.proc
def test_no_workers_equals_one_worker() -> None:
    """`num_workers=0` is one actor, and one task, in the driver."""
    alone = figures(short("sim", num_workers=0).history)
    assert alone == figures(short("sim", num_workers=1).history)
    assert alone == figures(short("local", num_workers=0).history)


def test_a_run_goes_on_from_its_state_bit_for_bit() -> None:
    """Weights, optimiser, tasks and generators are all in it."""
    workers = Workers(maml.Config.make(num_workers=2, num_envs_per_worker=4))
    flow = maml.plan(ParallelRollouts(workers), workers)
    with flow.run("sim", seed=5) as run:
        next(run)
        state = run.get_state()
        expected = [next(run).stats for _ in range(2)]
    with flow.run("sim", seed=5) as again:
        again.set_state(state)
        assert [next(again).stats for _ in range(2)] == expected


def test_an_environment_without_tasks_is_refused() -> None:
    """By name, before anything starts."""
    with pytest.raises(rf.BuildError, match="'CartPole-v1' is no family of tasks"):
        train("maml", "CartPole-v1")


def test_adapting_leaves_the_given_weights_as_they_are() -> None:
    """It tells the returns before and after each step, and gives the adapted weights."""
    trained = short("sim")
    before = {name: value.copy() for name, value in trained.weights.items()}
    result = maml.adapt_and_evaluate(trained.config, trained.weights, UNSEEN[0], steps=3)
    assert len(result.returns) == 4
    assert all(np.array_equal(before[name], trained.weights[name]) for name in before)
    assert not np.array_equal(result.weights["log_std"], before["log_std"])
    again = maml.adapt_and_evaluate(trained.config, trained.weights, UNSEEN[0], steps=3)
    assert again.returns == result.returns, "a seed of its own, so the same twice"


def test_numbers_that_cannot_work_are_told_together() -> None:
    """With their names and values."""
    with pytest.raises(rf.BuildError, match=r"inner_adaptation_steps.*got 0; inner_lr.*got -1"):
        maml.Config.make(inner_adaptation_steps=0, inner_lr=-1)


class Lever(gymnasium.Env[Any, Any]):
    """Pays for one of two levers; the task says which. Made one by one, with a reset step."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.pays, self.left = 0, 3

    def sample_tasks(self, count: int, seed: int) -> list[int]:
        return [(seed + i) % 2 for i in range(count)]

    def set_task(self, task: int) -> None:
        self.pays = task

    def reset(self, **_: Any) -> Any:
        self.left = 3
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return np.ones(1, np.float32), float(action == self.pays), self.left == 0, False, {}


def test_a_family_of_single_environments_with_discrete_actions() -> None:
    """Copies made one by one are given their task too, and steps that only reset are left out."""
    settings = {"num_workers": 2, "num_envs_per_worker": 8, "rollout_fragment_length": 11}
    trained = train("maml", Lever, until={"steps": 6000}, engine="sim", inner_lr=1.0, **settings)
    for task in (0, 1):
        before, after = maml.adapt_and_evaluate(trained.config, trained.weights, task).returns
        assert after > before + 0.3, (before, after)


# -- learning ------------------------------------------------------------------------------------


class AnyGoal(PointGoal):
    """The same family for a policy that cannot adapt: each episode has a goal of its own."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.goal: Goal = np.zeros((num_envs, 2), np.float32)

    def begin(self, rows: Bools) -> None:
        super().begin(rows)
        seed = int(self.np_random.integers(2**31))
        self.goal[rows] = np.array(sample_goals(int(rows.sum()), seed), np.float32)


class GivenGoals(AnyGoal):
    """The unseen tasks, one for each copy."""

    def begin(self, rows: Bools) -> None:
        PointGoal.begin(self, rows)
        goals: Array = np.array(UNSEEN, np.float32)
        self.goal = np.resize(goals, (self.num_envs, 2))


def without_adaptation(seed: int) -> float:
    """The mean return on the unseen tasks of PPO, trained for as many steps on the family.

    Fewer passes over larger batches and smaller steps than by default, with which it is sometimes
    carried off: the defaults are those of discrete actions.
    """
    ppo = train("ppo", AnyGoal, until={"steps": STEPS}, seed=seed, engine="sim", lr=1e-3,
                num_sgd_iter=4, rollout_fragment_length=20, train_batch_size=4096,
                sgd_minibatch_size=512)  # fmt: skip
    config = dataclasses.replace(ppo.config, env=GivenGoals)
    unseen = Trained(config, ppo.spec, ppo.weights, [])
    return float(np.mean(unseen.evaluate(len(UNSEEN))))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_step_of_adaptation_is_worth_most_of_the_way(seed: int) -> None:
    """On tasks it never saw: far above itself before, and above PPO, which cannot know the goal."""
    trained = train("maml", until={"steps": STEPS}, seed=seed, engine="sim", num_workers=8)
    results = [
        maml.adapt_and_evaluate(trained.config, trained.weights, task, seed=i).returns
        for i, task in enumerate(UNSEEN)
    ]
    before, after = np.mean(results, axis=0)
    plain = without_adaptation(seed)
    print(f"seed {seed}: before {before:.1f}, after {after:.1f}, ppo {plain:.1f}")
    assert plain > -21, "it learns what there is to learn without adapting: to stay in the middle"
    assert after > before + 8
    assert after > plain + 8
    assert min(result[-1] for result in results) > -16, "no task is left out"
