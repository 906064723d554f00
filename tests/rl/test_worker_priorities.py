"""Rows enter prioritized replay with the error that the worker found in them, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from rillflow.algorithms import apex, dqn
from rillflow.errors import BuildError
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.rl.replay_actor import ReplayActor
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo
from tests.rl.test_waiting_steps import Clock, clocks


def info(name: str) -> ActorInfo:
    return ActorInfo(f"{name}-0", index=0, incarnation=0, seed=4)


def config(cls: Any = apex.Config, **settings: Any) -> Any:
    small = {"hidden": (8,), "num_envs_per_worker": 2, "rollout_fragment_length": 3}
    return cls(**{**small, "learning_starts": 8, "n_step": 3, "gamma": 0.9, **settings})


def filled(cfg: Any, fragments: int = 12) -> tuple[RolloutWorker, ReplayActor]:
    """A worker, and a replay actor with what it sampled."""
    worker = RolloutWorker(cfg, Workers(cfg).spec, info("worker"))
    replay = ReplayActor(**cfg.replay_options, info=info("replay"))
    for _ in range(fragments):
        replay.add(worker.sample())
    return worker, replay


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_priority_is_the_error_by_the_weights_the_worker_had(
    mode: AutoresetMode, dueling: bool
) -> None:
    """|r + discount max q(next) - q(obs, action)|, also where an episode or a fragment ended."""
    cfg = config(env=clocks(mode), dueling=dueling)
    worker, replay = filled(cfg)
    state = replay.get_state()
    rows = state["columns"]
    assert sorted(rows) == ["actions", "discount", "next_obs", "obs", "rewards"]
    q, after = (worker.policy.outputs(rows[name]) for name in ("obs", "next_obs"))
    acted = q[np.arange(len(q)), rows["actions"]]
    errors = np.abs(rows["rewards"] + rows["discount"] * after.max(1) - acted)
    expected = (errors + cfg.prioritized_replay_epsilon) ** cfg.prioritized_replay_alpha
    np.testing.assert_allclose(state["masses"], expected, rtol=1e-4)
    assert state["max_priority"] == pytest.approx(max(1.0, errors.max()), rel=1e-5)
    assert (rows["discount"] == 0).any()
    assert np.unique(errors).size > 10


def test_scaled_rewards_are_scaled_in_priorities_too() -> None:
    """Values that were learned from small rewards say nothing beside large ones."""
    cfg = config(env=Clock, scale_rewards=True, rollout_fragment_length=24)
    worker = RolloutWorker(cfg, Workers(cfg).spec, info("worker"))
    replay = ReplayActor(**cfg.replay_options, info=info("replay"))
    plain = config(env=Clock, rollout_fragment_length=24)
    unscaled = filled(plain, 1)[1].get_state()["columns"]["rewards"]
    replay.add(worker.sample())
    state = replay.get_state()
    rows = state["columns"]
    assert np.array_equal(rows["rewards"], unscaled)  # what is kept is the environment's
    q, after = (worker.policy.outputs(rows[name]) for name in ("obs", "next_obs"))
    acted = q[np.arange(len(q)), rows["actions"]]
    rewards = np.clip(rows["rewards"] / rows["running_return"].std(), -10, 10)
    errors = np.abs(rewards + rows["discount"] * after.max(1) - acted)
    expected = (errors + cfg.prioritized_replay_epsilon) ** cfg.prioritized_replay_alpha
    np.testing.assert_allclose(state["masses"], expected, rtol=1e-4)


def test_the_scale_of_priorities_is_kept_with_the_rows() -> None:
    """A replay actor that goes on from a state gives the same priorities to what comes then."""
    cfg = config(env=Clock, scale_rewards=True)
    worker, replay = filled(cfg)
    other = ReplayActor(**cfg.replay_options, info=info("replay"))
    other.set_state(replay.get_state())
    batch = worker.sample()
    replay.add(batch)
    other.add(batch)
    assert np.array_equal(other.get_state()["masses"], replay.get_state()["masses"])


def test_each_step_is_valued_by_the_weights_it_was_acted_with() -> None:
    """New weights in between: what waited keeps the value that was told when it was done."""
    cfg = config(n_step=4, rollout_fragment_length=4)
    worker = RolloutWorker(cfg, Workers(cfg).spec, info("worker"))
    first = worker.sample()
    waiting = first["obs"][-3:], first["actions"][-3:]
    before = np.stack([worker.policy.outputs(obs) for obs in waiting[0]])
    worker.set_weights({name: 2 * array for name, array in worker.policy.get_weights().items()})
    second = worker.sample()
    expected = np.take_along_axis(before, waiting[1][..., None], 2)[..., 0]
    np.testing.assert_allclose(second["acted_q"][:3], expected, rtol=1e-5)
    own = np.stack([worker.policy.outputs(obs) for obs in second["obs"][3:]])
    np.testing.assert_allclose(second["action_values"][3:], own, atol=1e-6)


@pytest.mark.parametrize("cls", [apex.Config, dqn.Config])
def test_it_can_be_switched(cls: Any) -> None:
    """On for Ape-X and off for others unless said; without it rows get the largest priority."""
    for wanted in (None, True, False):
        cfg = config(cls, **({} if wanted is None else {"worker_priorities": wanted}))
        masses = filled(cfg)[1].get_state()["masses"]
        told = cls is apex.Config if wanted is None else wanted
        assert (np.unique(masses).size > 1) == told


def test_uniform_replay_asks_for_no_values() -> None:
    """Nothing could use them."""
    worker, replay = filled(config(prioritized_replay=False))
    assert "acted_q" not in worker.sample()
    assert "acted_q" not in replay.get_state()["columns"]


@pytest.mark.parametrize("dueling", [False, True])
def test_telling_values_changes_no_action(dueling: bool) -> None:
    """The same actions from the same seed, and both policies tell the same values."""
    cfg = config(env=Clock, dueling=dueling)
    spec = Workers(cfg).spec
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    for kind in (NumpyPolicy, TorchPolicy):
        one, two = kind(spec, 3), kind(spec, 3)
        actions, logp, values = one.act_and_value(obs, 0.5)
        plain = two.act(obs, 0.5)
        assert np.array_equal(actions, plain[0])
        assert np.array_equal(logp, plain[1])
        np.testing.assert_allclose(values, NumpyPolicy(spec, 3).outputs(obs), atol=1e-6)
        assert np.array_equal(values, one.action_values(obs))


# -- beta ------------------------------------------------------------------------------------------


def test_beta_rises_in_a_line_over_the_steps_of_all_workers() -> None:
    """From 0.4 to 1, by the rows that came in; two shards have half of them each."""
    cfg = config(prioritized_replay_beta_timesteps=96, num_replay_buffer_shards=2, n_step=1)
    worker = RolloutWorker(cfg, Workers(cfg).spec, info("worker"))
    replay = ReplayActor(**cfg.replay_options, info=info("replay"))
    assert replay.beta == 0.4
    while replay.account()["inserted"] < 24:
        replay.add(worker.sample())
    done = replay.account()["inserted"] / 48
    assert replay.beta == pytest.approx(0.4 + 0.6 * done)
    other = ReplayActor(**cfg.replay_options, info=info("replay"))
    other.set_state(replay.get_state())
    assert other.beta == replay.beta
    assert np.array_equal(other.replay()["weights"], replay.replay()["weights"])
    for _ in range(12):
        replay.add(worker.sample())
    assert replay.beta == 1.0


def test_weights_follow_the_beta_of_the_moment() -> None:
    """(P(i) / min P) ^ -beta, with the beta that the rows seen so far give."""
    cfg = config(prioritized_replay_beta_timesteps=100, num_replay_buffer_shards=1)
    _, replay = filled(cfg)
    masses = replay.get_state()["masses"]
    batch = replay.replay()
    rows = batch["keys"][0] - replay.first_key
    expected = (masses[rows] / masses.min()) ** -replay.beta
    assert 0.4 < replay.beta < 1
    np.testing.assert_allclose(batch["weights"][0], expected, rtol=1e-5)


def test_a_beta_that_stays_as_it_is() -> None:
    cfg = config(prioritized_replay_beta=0.5, final_prioritized_replay_beta=0.5)
    assert filled(cfg)[1].beta == 0.5


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(BuildError, match="final_prioritized_replay_beta must be between 0 and 1"):
        config(final_prioritized_replay_beta=1.5)
    with pytest.raises(BuildError, match="prioritized_replay_beta_timesteps must be at least 1"):
        config(prioritized_replay_beta_timesteps=0)
