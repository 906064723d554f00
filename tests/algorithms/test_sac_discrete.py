"""SAC of discrete actions: an expectation over all of them in place of one that is drawn."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import rillflow as rf
from rillflow.algorithms import sac
from rillflow.experience.batch import SampleBatch
from rillflow.learning.make_learner import framework_and_reason, make_learner
from rillflow.learning.numpy_learner import NumpyLearner
from rillflow.policies.spec import PolicySpec
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from tests.masked import Gate

SMALL: dict[str, Any] = {
    "hidden": (8,),
    "learning_starts": 40,
    "train_batch_size": 16,
    "training_intensity": 8.0,
    "batches_per_draw": 2,
    "n_step": 1,
    "final_lr": None,
}
in_each = pytest.mark.parametrize("framework", ["numpy", "torch"])


def replayed(spec: PolicySpec, seed: int = 0, rows: int = 64) -> SampleBatch:
    """What replay gives."""
    rng = np.random.default_rng(seed)
    shape = (1, rows, *spec.observation_shape)
    observations = [rng.standard_normal(shape, np.float32) for _ in range(2)]
    if spec.layout is not None:
        observations = [spec.layout.invented((1, rows), rng) for _ in range(2)]
    actions = rng.integers(0, spec.actions.width, (1, rows))
    if spec.masked:
        assert spec.layout is not None
        actions = spec.layout.mask(observations[0]).argmax(-1)
    return SampleBatch(
        {
            "obs": observations[0],
            "actions": actions,
            "rewards": rng.standard_normal((1, rows), np.float32),
            "next_obs": observations[1],
            "discount": np.full((1, rows), 0.9, np.float32),
            "weights": rng.random((1, rows), np.float32),
            "keys": np.arange(rows)[None],
        }
    )


@pytest.mark.parametrize("env", ["CartPole-v1", Gate], ids=["pole", "masks"])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_two_frameworks_learn_the_same(env: Any, normalize: bool) -> None:
    """Weights, targets and figures of the actor, of both critics and of the worth of entropy."""
    settings = {**SMALL, "hidden": (16, 16), "normalize_observations": normalize}
    workers = Workers(sac.Config(env=env, **settings))
    fast = make_learner(workers.spec, workers.config, 0)
    slow = make_learner(workers.spec, dataclasses.replace(workers.config, framework="torch"), 0)
    assert isinstance(fast, NumpyLearner)
    for seed in range(5):
        data = replayed(workers.spec, seed)
        results: list[Any] = [one.train(data, 1, 16 if seed % 2 else None) for one in (fast, slow)]
        assert results[0].stats == pytest.approx(results[1].stats, abs=2e-3, rel=2e-3)
        for name in ("td_errors", "keys"):
            np.testing.assert_allclose(results[0].rows[name], results[1].rows[name], atol=1e-3)
    mine, theirs = fast.get_state(), slow.get_state()
    for part in ("networks", "targets"):
        assert set(mine[part]) >= {"q", "twin"}
        for name, weights in mine[part].items():
            for key, array in weights.items():
                other = theirs[part][name][key]
                np.testing.assert_allclose(array, other, atol=2e-4, rtol=1e-3, err_msg=name)


def test_the_critics_begin_with_numbers_of_their_own() -> None:
    """Two that are alike would stay alike, and the lower of them would be either."""
    workers = Workers(sac.Config(env="CartPole-v1", **SMALL))
    for framework in ("numpy", "torch"):
        config = dataclasses.replace(workers.config, framework=framework)
        m = make_learner(workers.spec, config, 0).m
        weights = [net.get_weights()["trunk.0.weight"] for net in (m.actor, m.q, m.twin)]
        for one, other in ((0, 1), (0, 2), (1, 2)):
            assert not np.allclose(weights[one], weights[other])


@in_each
def test_an_update_by_hand(framework: str) -> None:
    """One row of observation 1, after which 2 is seen; there are no hidden layers.

    Of 2 the actor's logits are 0 and log 3, its probabilities 1/4 and 3/4; the critics' targets say
    (2, 8) and (4, 6), of which (2, 6) count. Of 1, logits are 0 and log(3)/2.
    """
    spec = PolicySpec(
        observation_space=spaces.Box(-9, 9, (1,), np.float32),
        action_space=spaces.Discrete(2),
        hidden=(),
    )
    config = sac.Config(
        env="CartPole-v1", hidden=(), framework=framework, adam_epsilon=1e-8, lr=0.01, tau=0.5,
        initial_alpha=0.2, final_lr=None,
    )  # fmt: skip
    learner: Any = make_learner(config.modules(spec).acting, config, 0)

    def weights(*rows: float) -> Any:
        matrix = np.float32(rows)[:, None]
        return {"action_head.weight": matrix, "action_head.bias": np.zeros(2, np.float32)}

    learner.m.actor.set_weights(weights(0.0, np.log(3) / 2))
    learner.m.q.set_weights(weights(1.0, 5.0))
    learner.m.twin.set_weights(weights(2.0, 2.5))
    learner.m.targets["q"].set_weights(weights(1.0, 4.0))
    learner.m.targets["twin"].set_weights(weights(2.0, 3.0))
    row = {
        "obs": np.float32([[[1.0]]]), "actions": np.array([[1]]), "rewards": np.float32([[3.0]]),
        "next_obs": np.float32([[[2.0]]]), "discount": np.float32([[0.5]]),
    }  # fmt: skip
    stats = learner.train(SampleBatch(row)).stats

    p = np.array([0.25, 0.75])
    goal = 3.0 + 0.5 * (p @ ([2.0, 6.0] - 0.2 * np.log(p)))
    assert stats["q_loss"] == pytest.approx(0.5 * ((5 - goal) ** 2 + (2.5 - goal) ** 2), rel=1e-5)
    assert stats["mean_q"] == pytest.approx(5.0)
    # only what is said of the action taken moves, by the rate towards the target; then the actor
    after = np.array([[1.0, 5.01 if goal > 5 else 4.99], [2.0, 2.51]])
    after[:, 1] += np.sign(goal - np.array([5.0, 2.5])) * 0.01  # the bias
    logp = np.array([0.0, np.log(3) / 2])
    logp -= np.log(np.exp(logp).sum())
    value = np.exp(logp) @ (after.min(0) - 0.2 * logp)
    assert stats["actor_loss"] == pytest.approx(-value, rel=1e-5)
    assert stats["entropy"] == pytest.approx(-np.exp(logp) @ logp, rel=1e-5)
    # the second action is worth more than the first by more than its chance: it becomes likelier
    moved = learner.get_weights()["action_head.weight"][:, 0]
    np.testing.assert_allclose(moved, [-0.01, np.log(3) / 2 + 0.01], rtol=1e-4)
    # there is more entropy than wanted, half of log 2: it is worth less
    log_alpha = float(learner.m.log_alpha.get_weights()["value"])
    assert log_alpha == pytest.approx(np.log(0.2) - 0.01, rel=1e-5)
    target = learner.m.targets["twin"].get_weights()["action_head.weight"][:, 0]
    np.testing.assert_allclose(target, [2.0, (3.0 + 2.51) / 2], rtol=1e-5)


@in_each
def test_where_masks_leave_fewer_choices_less_entropy_is_wanted(framework: str) -> None:
    """A part of the logarithm of how many there are; of one alone, none."""
    workers = Workers(sac.Config(env=Gate, framework=framework, **SMALL))
    learner: Any = make_learner(workers.spec, workers.config, 0)
    obs = replayed(workers.spec)["obs"][0]
    if framework == "torch":
        obs = learner._tensor(obs)
    wanted = np.asarray(sac.wanted_entropy(learner.m.actor, obs, learner.cfg))
    counts = np.asarray(learner.m.actor.action_mask(obs)).sum(-1)
    np.testing.assert_allclose(wanted, sac.PART * np.log(np.maximum(counts, 1)), rtol=1e-5)
    assert len(set(counts.tolist())) > 1


def test_explain_says_that_numpy_learns_it() -> None:
    workers = Workers(sac.Config(env="CartPole-v1"))
    framework, why = framework_and_reason(workers.spec, workers.config)
    assert framework == "numpy", why


@in_each
def test_a_resumed_run_equals_the_one_that_was_saved(framework: str) -> None:
    """To the last bit."""

    def started() -> Any:
        workers = Workers(sac.Config(env="CartPole-v1", framework=framework, **SMALL))
        return sac.plan(ParallelRollouts(workers), workers).run("sim", seed=5), workers

    run, workers = started()
    with run:
        for _ in range(7):
            next(run)
        state = run.get_state()
        rest = [next(run).stats for _ in range(6)]
        weights = dict(run.shared[workers.weights_key].weights)
    again, workers = started()
    with again:
        again.set_state(state)
        assert [next(again).stats for _ in range(6)] == rest
        found = again.shared[workers.weights_key].weights
        assert all((found[name] == array).all() for name, array in weights.items())


def test_a_policy_is_saved_and_exported(tmp_path: Path) -> None:
    trained = rf.train("sac", "CartPole-v1", engine="sim", until={"steps": 120}, **SMALL)
    trained.save(tmp_path / "policy.npz")
    loaded = rf.load(tmp_path / "policy.npz")
    obs = np.random.default_rng(0).standard_normal((5, 4), np.float32)
    assert np.array_equal(loaded.act(obs), trained.act(obs))
    pytest.importorskip("onnx")
    from rillflow.results.onnx_export import export_onnx

    assert export_onnx(trained, tmp_path / "policy.onnx").exists()


def test_a_network_of_ones_own_gives_logits_and_values() -> None:
    """The same function makes the actor and both critics: each has one output per action."""
    from torch import nn

    def model(spec: PolicySpec) -> Any:
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, spec.actions.width))

    trained = rf.train(
        "sac", "CartPole-v1", engine="sim", until={"steps": 120}, model=model, **SMALL
    )
    assert np.isfinite(trained.history[-1]["actor_loss"])


def test_several_agents_learn_with_it() -> None:
    settings = {**SMALL, "policies": "each"}
    trained = rf.train("sac", "MultiAgentCartPole", engine="sim", until={"steps": 300}, **settings)
    assert any("actor_loss" in name for name in trained.history[-1])


@pytest.mark.parametrize("entropy", [-0.1, 0.7])
def test_an_entropy_that_no_policy_has_is_refused(entropy: float) -> None:
    told = rf"target_entropy of Discrete\(2\) must be .* uniform choice, 0.693, got {entropy}"
    with pytest.raises(rf.BuildError, match=told):
        Workers(sac.Config(env="CartPole-v1", target_entropy=entropy))


def test_several_choices_at_once_are_refused() -> None:
    """Their combinations would have to be numbered."""

    class Several(Gate):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = spaces.MultiDiscrete([2, 3])  # type: ignore[assignment]

    with pytest.raises(rf.BuildError, match=r"number all combinations: Discrete\(6\)"):
        Workers(sac.Config(env=Several, action_masks=False, **SMALL))
