"""Rainbow: what others got wrong, and that it works wherever DQN does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import dqn, rainbow
from rillflow.experience.batch import SampleBatch
from rillflow.experience.prioritized import PrioritizedReplayBuffer
from rillflow.policies.make import make_actor
from rillflow.results import evaluate
from rillflow.rl.replay_actor import ReplayActor
from rillflow.types import ActorInfo

SMALL: dict[str, Any] = {
    "hidden": (16,),
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 8,
    "learning_starts": 64,
    "train_batch_size": 16,
    "batches_per_draw": 2,
    "training_intensity": 2.0,
}
INFO = ActorInfo("replay-0", index=0, incarnation=0, seed=0)


def replay(**settings: Any) -> ReplayActor:
    """Replay as Rainbow's settings make it."""
    return ReplayActor(**rainbow.Config(**{"learning_starts": 1, **settings}).replay_options,
                       info=INFO)  # fmt: skip


def steps(first: int, count: int, ended: Any = (), cut: Any = ()) -> SampleBatch:
    """One environment that shows the number of each step and pays it."""
    numbers = np.arange(first, first + count, dtype=np.float32)[:, None]
    terminated, truncated = np.zeros((2, count, 1), bool)
    terminated[list(ended)], truncated[list(cut)] = True, True
    return SampleBatch(
        {
            "obs": numbers[..., None],
            "actions": np.zeros((count, 1), np.int64),
            "rewards": numbers,
            "terminated": terminated,
            "truncated": truncated,
            "next_obs": numbers[..., None] + 1,
            "bootstrap_obs": numbers[-1:] + 1,
        }
    )


def train(steps_: int = 600, engine: str = "sim", **settings: Any) -> Any:
    return rf.train(
        "rainbow", until={"steps": steps_}, engine=engine, seed=1, **{**SMALL, **settings}
    )


def test_it_switches_on_what_dqn_has() -> None:
    config = rainbow.Config()
    assert config.num_atoms == 51
    assert config.noisy
    assert config.double_q
    assert config.dueling
    assert config.prioritized_replay
    assert config.n_step == 3
    assert rainbow.plan is dqn.plan
    assert rainbow.update is dqn.update


# -- what others got wrong ------------------------------------------------------------------------


def test_importance_weights_correct_wholly_in_the_end() -> None:
    """With a beta that stays at 0.4 others lost three quarters of the score."""
    actor = replay(prioritized_replay_beta_timesteps=100)
    betas = []
    for first in range(0, 120, 20):
        actor.add(steps(first, 20))
        betas.append(actor.beta)
    assert betas == pytest.approx([0.52, 0.64, 0.76, 0.88, 1.0, 1.0])
    buffer: Any = actor.buffer
    keys = actor.replay()["keys"][0]
    actor.update_priorities(keys, np.linspace(0.1, 5, len(keys)))
    sample = actor.replay()
    chances = buffer._masses.get(sample["keys"][0] % actor.buffer.capacity)
    weights = sample["weights"][0]
    # beta 1: weights are in proportion to one over the chance
    assert np.allclose(weights * chances, (weights * chances)[0], rtol=1e-4)


@pytest.mark.parametrize("end", ["ended", "cut"])
def test_three_steps_ahead_stop_where_an_episode_does(end: str) -> None:
    """The last rows look less far; what was cut is valued by what truly followed."""
    actor = replay(gamma=0.5)
    actor.add(steps(1, 5, **{end: (3,)}))
    rows: Any = actor.buffer.sample(200).columns
    found = {
        float(obs[0]): (float(r), float(d), float(n[0]))
        for obs, r, d, n in zip(
            rows["obs"], rows["rewards"], rows["discount"], rows["next_obs"], strict=True
        )
    }
    goes_on = 0.0 if end == "ended" else 1.0
    assert found[1] == pytest.approx((1 + 2 / 2 + 3 / 4, 1 / 8, 4))
    assert found[2] == pytest.approx((2 + 3 / 2 + 4 / 4, goes_on / 8, 5))
    assert found[3] == pytest.approx((3 + 4 / 2, goes_on / 4, 5))
    assert found[4] == pytest.approx((4, goes_on / 2, 5))


def test_new_rows_enter_with_the_largest_priority() -> None:
    """So that each is likely to be seen soon, however large errors have become."""
    actor = replay(prioritized_replay_alpha=1.0)
    actor.add(steps(0, 10))
    actor.update_priorities(np.arange(10), np.linspace(0.1, 7, 10))
    actor.add(steps(100, 1))
    drawn = actor.buffer.sample(4000).columns["obs"][:, 0]
    assert (drawn == 100).mean() == pytest.approx((drawn == 9).mean(), rel=0.2)
    assert isinstance(actor.buffer, PrioritizedReplayBuffer)
    assert actor.buffer.max_priority == 7


def test_no_row_joins_what_is_old_to_what_is_new() -> None:
    """A ring of 16 rows that is overwritten again and again, at every place in it."""
    actor = replay(buffer_size=16)
    for first in range(0, 500, 7):
        actor.add(steps(first, 7))
        rows = actor.buffer.sample(64).columns
        ahead = rows["next_obs"] - rows["obs"]
        assert ((ahead >= 1) & (ahead <= 3)).all()
        n = ahead[:, 0].astype(int)
        assert np.allclose(rows["discount"], 0.99**n)


@pytest.mark.parametrize(("v_max", "least", "most"), [(2.0, 0.3, 1.0), (100.0, 0.0, 0.01)])
def test_a_support_that_is_too_small_is_told(v_max: float, least: float, most: float) -> None:
    """CartPole's discounted returns go up to 100: the figure shows who has not thought of it."""
    trained = train(2000, env="CartPole-v1", v_min=0.0, v_max=v_max, scale_rewards=False)
    told = [row["clipped_mass"] for row in trained.history[-20:]]
    assert least <= np.mean(told) <= most


def test_greedy_evaluation_has_no_noise() -> None:
    """The same weights play the same episodes twice; not greedily they do not."""
    trained = train()
    assert evaluate(trained, 5, seed=3).returns == evaluate(trained, 5, seed=3).returns
    obs = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    policy: Any = make_actor(trained.spec)
    policy.set_weights(trained.weights)
    greedy = policy.greedy(obs)
    for _ in range(3):
        policy.act(obs)
        assert np.array_equal(policy.greedy(obs), greedy)


# -- wherever DQN works ---------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_run() -> None:
    first, again, other = train(), train(), train(sigma0=0.3)
    for name, array in first.weights.items():
        assert np.array_equal(array, again.weights[name]), name
    assert any(not np.array_equal(a, other.weights[n]) for n, a in first.weights.items())


@pytest.mark.proc
def test_sim_equals_local() -> None:
    ours, theirs = train(engine="sim"), train(engine="local")
    for name, array in ours.weights.items():
        assert np.array_equal(array, theirs.weights[name]), name


def test_settings_that_nobody_gave_need_no_flag() -> None:
    """Rewards are scaled, so that ends from -10 to 10 suit most environments."""
    config = rainbow.Config(env="Acrobot-v1")
    assert (config.v_min, config.v_max, config.scale_rewards) == (-10.0, 10.0, None)
    trained = train(1500, env="Acrobot-v1")
    assert np.mean([row["clipped_mass"] for row in trained.history]) < 0.2


def test_noise_can_be_left_out_where_the_environment_has_settings_for_it() -> None:
    """Nobody gave `sigma0`: it is what CartPole begins with, and is of no use then."""
    assert rainbow.Config(env="CartPole-v1").sigma0 != rainbow.Config(env="Bandit").sigma0
    assert not rainbow.Config.make(env="CartPole-v1", noisy=False).noisy
