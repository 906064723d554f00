"""What is learned when an environment has failed: with memory, from replay, many steps ahead.

A vector that begins the next episode within the step of the end has a column `valid` only in the
fragment of a failure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from rillflow.algorithms import dqn, ppo
from rillflow.envs import reset_after_error
from rillflow.experience.batch import STATE, MultiAgentBatch, SampleBatch
from rillflow.experience.transitions import transitions
from rillflow.learning.torch_learner import TorchLearner
from rillflow.rl.replay_actor import ReplayActor
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo
from tests.unit.envs.test_mending_several import Transition, Whole, learned_from, pairs

pytestmark = pytest.mark.usefixtures("one_thread")
MODES = list(AutoresetMode)
SMALL: dict[str, Any] = {"hidden": (8,), "num_envs_per_worker": 3, "num_workers": 1}
INFO = ActorInfo("worker-0", 0, 0, seed=3)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reset_after_error, "_PAUSE", 0.0)


def worker_of(
    algorithm: Any, mode: AutoresetMode, *fails: int, **settings: Any
) -> tuple[RolloutWorker, TorchLearner, list[Transition]]:
    """A worker whose vector raises in these steps, a learner with its weights, and the truth."""
    Whole.made = 0
    log: list[Transition] = []
    config = algorithm.Config.make(
        env=lambda num_envs: Whole(num_envs, mode, fails, log), **{**SMALL, **settings}
    )
    workers = Workers(config)
    learner = TorchLearner(workers.spec, config, 5, devices=("cpu",))
    worker = RolloutWorker(config, workers.spec, INFO)
    worker.set_weights(learner.get_weights())
    return worker, learner, log


def is_learned(learner: TorchLearner, batch: SampleBatch) -> bool:
    before = learner.get_weights()
    assert learner.learn(batch)
    after = learner.get_weights()
    return all(np.isfinite(after[name]).all() for name in after) and any(
        not np.array_equal(after[name], before[name]) for name in after
    )


# -- actors and critics with memory ----------------------------------------------------------------


@pytest.mark.parametrize("fails", [130, 150, 151], ids=["inside", "last-step", "first-step"])
@pytest.mark.parametrize("mode", MODES)
def test_memory_begins_anew_where_the_environment_did(mode: AutoresetMode, fails: int) -> None:
    """What the workers thought is found again from the stored state, over the failure."""
    settings = {"memory": "lstm", "memory_size": 6, "rollout_fragment_length": 50}
    worker, learner, _ = worker_of(ppo, mode, fails, **settings)
    batches = [worker.sample() for _ in range(4)]
    for batch in batches:
        rows = learner.rows(batch)
        with torch.no_grad():
            logp, _, _ = learner.m.policy.evaluate_rows(rows)
        np.testing.assert_allclose(logp, batch["logp"], atol=1e-5)
    t, row = divmod(fails, 50)
    assert batches[t]["starts"][row].all()
    assert batches[t]["obs"][row, :, 0].tolist() == [2, 2, 2]
    assert not batches[(fails - 1) // 50]["valid"][(fails - 1) % 50].any()


def test_ppo_with_memory_learns_from_fragments_with_a_failure_and_without() -> None:
    """Nothing that stands in the step of the failure changes what is learned."""
    settings = {"memory": "gru", "memory_size": 6, "rollout_fragment_length": 50}
    worker, learner, _ = worker_of(ppo, AutoresetMode.SAME_STEP, 130, **settings)
    fragments = [worker.sample() for _ in range(4)]
    assert ["valid" in one for one in fragments] == [False, False, True, False]
    joined = SampleBatch.concat(fragments[1:])
    spoiled = {name: np.array(column) for name, column in joined.items()}
    for name in ("rewards", "logp"):
        spoiled[name][29, 3:6] = 1e3
    sizes = []
    for batch in (joined, SampleBatch(spoiled)):
        rows = learner.rows(batch)
        assert rows.obs.shape[:2] == (50, 9)
        assert int(rows.valid.sum()) == 50 * 9 - 3
        sizes.append(learner.look_at(rows)[1])
    assert sizes[0] == sizes[1]
    assert is_learned(learner, joined)


def test_agents_that_were_cut_remember_nothing_of_it() -> None:
    """Of two agents one has left when their copy raises; the others remember on."""
    sampler, _ = pairs((36,), memory="lstm", memory_size=4)
    batch = sampler.sample()["one"]
    assert batch["starts"][36, [0, 3]].all()
    first = [np.flatnonzero(batch["starts"][:, row]).tolist() for row in (3, 4)]
    assert first == [[0, 36], [0, 40]]
    memory = sampler.remembering["one"].policy
    with torch.no_grad():
        steps = batch["obs"][36:, 3:4], batch["actions"][36:, 3:4]
        starts = torch.from_numpy(batch["starts"][36:, 3:4].copy())
        state = memory.initial_state(1)
        logp, *_ = memory.evaluate_recurrent(*steps, state, starts)
    np.testing.assert_allclose(logp[:, 0], batch["logp"][36:, 3], atol=1e-5)


# -- replay ----------------------------------------------------------------------------------------

RECALL: dict[str, Any] = {"memory": "lstm", "memory_size": 6, "learning_starts": 6}


@pytest.mark.parametrize("burn_in", [0, 3])
@pytest.mark.parametrize("mode", MODES)
def test_sequences_of_a_failure_are_replayed_like_others(mode: AutoresetMode, burn_in: int) -> None:
    """They have the same columns, and no step leads out of its episode."""
    settings = {"rollout_fragment_length": 10, "burn_in": burn_in, "n_step": 2, **RECALL}
    worker, learner, log = worker_of(dqn, mode, 114, train_batch_size=200, **settings)
    config: Any = worker.config
    actor = ReplayActor(**config.replay_options, info=INFO)
    fragments = [worker.sample() for _ in range(13)]
    for fragment in fragments:
        actor.add(fragment)
    failed = fragments[11]
    assert not failed["valid"][burn_in + 3].any()
    made = [t for fragment in fragments for t in learned_from(fragment)]
    assert sorted(made) == sorted(log)
    batch = actor.replay()
    rows = learner.rows(batch)
    last = rows["last"].numpy()
    obs, following = batch["obs"][burn_in:], batch["next_obs"][burn_in:]
    valid = batch["valid"][burn_in:]
    reached = np.take_along_axis(following, last[..., None], 0)
    assert np.array_equal(obs[valid][:, :3], reached[valid][:, :3])
    assert (reached[valid][:, 3] - obs[valid][:, 3] <= 2).all()
    assert is_learned(learner, batch)


@pytest.mark.parametrize("fails", [101, 107, 108, 109, 110, 111, 121])
@pytest.mark.parametrize("mode", MODES)
def test_steps_that_look_ahead_see_the_end_of_what_was_cut(mode: AutoresetMode, fails: int) -> None:
    """Each once, also those that waited for the fragment in which the environment failed."""
    settings = {"rollout_fragment_length": 10, "n_step": 3, "gamma": 0.5}
    worker, _, log = worker_of(dqn, mode, fails, **settings)
    batches = [worker.sample() for _ in range(15)]
    rows = [transitions(batch, 3, 0.5) for batch in batches]
    obs, following, rewards = (
        np.concatenate([one[name] for one in rows]) for name in ("obs", "next_obs", "rewards")
    )
    known = {tuple(row) for row in obs.tolist()}
    assert len(known) == len(obs), "each once"
    truth = [step[:4] for step in log]
    assert known <= set(truth)
    missing = [step for step in truth if step not in known]
    assert len(missing) <= 2 * 3, "those that wait for a fragment that was never made"
    assert {step[0] for step in missing} <= {2.0}, "all of what was cut is known"
    assert np.array_equal(obs[:, :3], following[:, :3])
    ahead = following[:, 3] - obs[:, 3]
    assert np.allclose(rewards, 2 - 0.5 ** (ahead - 1))
    lengths = np.array([20.0, 30.0, 40.0])[obs[:, 1].astype(int)]
    short = (ahead < 3) & (following[:, 3] < lengths)
    cut = following[short]
    assert (cut[:, 0] == 1).all(), "only where the environment failed"
    assert len(np.unique(cut, axis=0)) <= 3


# -- the scale of rewards --------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [130, 150, 151])
@pytest.mark.parametrize("mode", MODES)
def test_the_running_return_ends_where_the_environment_failed(
    mode: AutoresetMode, fails: int
) -> None:
    settings = {"rollout_fragment_length": 50, "scale_rewards": True, "gamma": 0.5}
    worker, _, _ = worker_of(ppo, mode, fails, **settings)
    batches = [worker.sample() for _ in range(4)]
    obs = np.concatenate([batch["obs"] for batch in batches])
    found = np.concatenate([batch["running_return"] for batch in batches])
    whole = [batch["valid"] if "valid" in batch else np.ones((50, 3), bool) for batch in batches]
    valid = np.concatenate(whole)
    np.testing.assert_allclose(found[valid], 2 - 0.5 ** obs[valid][:, 3], rtol=1e-6)


def test_batches_of_several_agents_are_joined_with_a_failure_and_without() -> None:
    sampler, _ = pairs((90,))
    batches = [sampler.sample() for _ in range(2)]
    joined = MultiAgentBatch.concat(batches)["one"]
    assert joined.shape == (50, 12)
    assert STATE not in joined
