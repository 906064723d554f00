"""Learning with memory does not depend on how large rewards are, and it gets where it has to."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import a2c, a3c, apex, async_dqn, dqn, ppo, simple_q
from rillflow.experience.batch import SampleBatch
from rillflow.experience.running_return import RUNNING_RETURN
from rillflow.learning.torch_learner import TorchLearner
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.rl.replay_actor import ReplayActor
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo

pytestmark = pytest.mark.usefixtures("one_thread")
HIDDEN = "CartPole-hidden-velocity"
SMALL: dict[str, Any] = {"hidden": (8,), "memory_size": 6, "num_workers": 0}
REPLAY: dict[str, Any] = {"learning_starts": 64, "train_batch_size": 64, "training_intensity": 2.0}
LARGE = 128.0
"""a power of two: rewards so many times as large are divided by it without rounding"""


class Paying(gymnasium.RewardWrapper[Any, Any]):
    """CartPole in another unit of reward."""

    unit = 1.0

    def reward(self, reward: Any) -> float:
        return float(reward) * self.unit


class PayingLarge(Paying):
    """CartPole with the returns of thousands that are hard to learn."""

    unit = LARGE


def pole(**options: Any) -> Any:
    return Paying(gymnasium.make("CartPole-v1", **options))


def large_pole(**options: Any) -> Any:
    return PayingLarge(gymnasium.make("CartPole-v1", **options))


def weights_after(algorithm: str, env: Any, **more: Any) -> dict[str, Any]:
    trained = rf.train(
        algorithm, env, until={"steps": 500}, engine="sim", memory="gru", num_envs_per_worker=4,
        **{**SMALL, **more},
    )  # fmt: skip
    first = TorchPolicy(trained.spec, 0).get_weights()
    assert not all(np.array_equal(first[name], trained.weights[name]) for name in first)
    return dict(trained.weights)


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("ppo", {"train_batch_size": 128, "rollout_fragment_length": 32, "num_sgd_iter": 2}),
        ("a2c", {"train_batch_size": 64}),
        ("dqn", REPLAY),
        ("simple_q", REPLAY),
    ],
)
def test_what_is_learned_does_not_depend_on_the_unit_of_rewards(algorithm: str, more: Any) -> None:
    """With the settings that a memory has: the same weights; and others, if nothing is scaled."""
    one, other = (weights_after(algorithm, env, **more) for env in (pole, large_pole))
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, atol=1e-4, err_msg=name)
    plain = weights_after(algorithm, large_pole, **more, scale_rewards=False)
    assert any(np.abs(plain[name] - value).max() > 1e-3 for name, value in one.items())


@pytest.mark.parametrize("algorithm", [ppo, a2c, dqn, simple_q, apex])
def test_rewards_are_scaled_with_a_memory_unless_it_is_said(algorithm: Any) -> None:
    """Where rollout workers tell returns: a source of one's own need not."""
    make = algorithm.Config.make
    for env in (HIDDEN, "RepeatPast"):
        assert make(env=env, memory="lstm").scale_rewards is None
        assert make(env=env, memory="gru", scale_rewards=False).scale_rewards is False
    if algorithm is not ppo:  # which scales wherever it does not know better
        assert make(env=HIDDEN).scale_rewards is False


@pytest.mark.parametrize("algorithm", [a3c, async_dqn])
def test_gradients_that_travel_are_of_rewards_as_they_are(algorithm: Any) -> None:
    assert algorithm.Config.make(memory="lstm").scale_rewards is False


def test_sequences_count_the_returns_of_their_own_steps() -> None:
    """Not those of the burn-in, another sequence's; sums look ahead over scaled rewards."""
    config = dqn.Config.make(
        env=HIDDEN, memory="lstm", rollout_fragment_length=6, burn_in=3, learning_starts=6,
        n_step=2, train_batch_size=12, batches_per_draw=1, num_envs_per_worker=3, **SMALL,
    )  # fmt: skip
    info = ActorInfo("worker-0", 0, 0, seed=3)
    spec = Workers(config).spec
    worker, learner = RolloutWorker(config, spec, info), TorchLearner(spec, config, 5, ("cpu",))
    actor = ReplayActor(**config.replay_options, info=info)
    for _ in range(8):
        actor.add(worker.sample())
    batch = actor.replay()
    returns = batch[RUNNING_RETURN][batch["valid"]]
    scaled = learner.scaled(batch)
    assert learner.reward_scale is not None
    assert learner.reward_scale.moments.count == batch.steps == len(returns)
    assert float(learner.reward_scale.moments.variance) == pytest.approx(returns.var(), rel=1e-5)
    found = learner.rows(scaled)
    plain = learner.rows(SampleBatch({n: c for n, c in batch.items() if n != RUNNING_RETURN}))
    assert torch.equal(found.last, plain.last)
    np.testing.assert_allclose(found.rewards * returns.std(), plain.rewards, rtol=1e-4)


GATES = [("ppo", "lstm", 475), ("ppo", "gru", 475), ("dqn", "lstm", 350), ("dqn", "gru", 350)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("algorithm", "memory", "goal"), GATES)
def test_the_pole_stays_up_though_nobody_shows_how_fast_it_falls(
    algorithm: str, memory: str, goal: float
) -> None:
    """By 100 greedy episodes, of 500 steps at most, within 300,000 steps."""
    trained = rf.train(
        algorithm, HIDDEN, memory=memory, engine="sim", seed=1, eval_every=10_000,
        eval_episodes=100, until={"eval_return": goal, "steps": 300_000},
    )  # fmt: skip
    print(f"\n{algorithm}, {memory}: {trained.history[-1]}")
    assert trained.history[-1]["eval_return"] >= goal
