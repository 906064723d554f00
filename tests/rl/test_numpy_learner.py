"""The learner in NumPy against the one in torch, algorithm by algorithm."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import (
    NAMES,
    a2c,
    a3c,
    apex,
    appo,
    async_dqn,
    dqn,
    get_algorithm,
    impala,
    pg,
    ppo,
    rainbow,
    simple_q,
)
from rillflow.experience.batch import SampleBatch
from rillflow.learning import losses
from rillflow.learning.make_learner import framework_and_reason, learns_in_numpy, make_learner
from rillflow.learning.numpy_learner import NumpyLearner
from rillflow.learning.torch_learner import TorchLearner
from rillflow.rl.workers import Workers
from tests.rl.test_learner import fragment, replayed

ACTOR_CRITIC = [a2c, a3c, pg, ppo]
REPLAY = [apex, dqn, rainbow, simple_q]
IN_NUMPY = [*ACTOR_CRITIC, *REPLAY, appo, async_dqn, impala]


def pair(algorithm: Any, seed: int = 0, **settings: Any) -> tuple[NumpyLearner, TorchLearner]:
    config = algorithm.Config.make(**settings)
    spec, config = Workers(config).spec, Workers(config).config
    fast = make_learner(spec, config, seed)
    slow = make_learner(spec, dataclasses.replace(config, framework="torch"), seed)
    assert isinstance(fast, NumpyLearner)
    assert isinstance(slow, TorchLearner)
    return fast, slow


def batch(algorithm: Any, seed: int) -> SampleBatch:
    if algorithm in REPLAY:
        return replayed(seed, rows=64)
    made = fragment(seed, 16, 20)
    rng = np.random.default_rng(seed)
    truncated = rng.random(made.shape) < 0.05
    valid = rng.random(made.shape) < 0.9
    return made.with_columns(truncated=truncated & ~made["terminated"], valid=valid)


def assert_close(one: dict[str, Any], other: dict[str, Any], atol: float) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], atol=atol, rtol=1e-3, err_msg=name)


@pytest.mark.parametrize("algorithm", IN_NUMPY, ids=lambda a: a.__name__.rpartition(".")[2])
def test_the_two_learn_the_same(algorithm: Any) -> None:
    """Gradients, figures, and the weights after some training in shuffled minibatches."""
    fast, slow = pair(algorithm)
    gradients = [one.compute_gradients(batch(algorithm, 9)) for one in (fast, slow)]
    assert_close(gradients[0].values, gradients[1].values, atol=1e-5)
    assert_close(gradients[0].stats, gradients[1].stats, atol=1e-5)
    passes = (2, 64) if algorithm in ACTOR_CRITIC else (1, None)
    for seed in range(4):
        results = [one.train(batch(algorithm, seed), *passes) for one in (fast, slow)]
        assert_close(results[0].stats, results[1].stats, atol=1e-3)
        rows = [getattr(result, "rows", {}) for result in results]
        assert_close(rows[0], rows[1], atol=1e-3)
    assert_close(fast.get_weights(), slow.get_weights(), atol=1e-3)
    assert fast.version == slow.version == 4


@pytest.mark.parametrize("minibatch", [16, 64, 300])
def test_minibatches_of_fragments(minibatch: int) -> None:
    """One environment, four, all of them; steps that only reset do not count in either."""
    fast, slow = pair(impala)
    for seed in range(3):
        results = [one.train(batch(impala, seed), 2, minibatch) for one in (fast, slow)]
        assert_close(results[0].stats, results[1].stats, atol=1e-3)
    assert fast.updates == slow.updates == 3 * 2 * (20 // max(1, minibatch // 16))
    assert_close(fast.get_weights(), slow.get_weights(), atol=1e-3)


@pytest.mark.parametrize("which", [0, 1])
def test_the_learning_rate_falls(which: int) -> None:
    """With it what a step changes; at 0 nothing changes any more, also in a run that goes on."""
    learner = pair(dqn, lr=1e-2, final_lr=0.0, lr_updates=3)[which]
    states = [learner.get_state()]
    for seed in range(4):
        learner.train(batch(dqn, seed))
        states.append(learner.get_state())
    moved = [
        max(np.abs(after[n] - before[n]).max() for n in before)
        for before, after in itertools.pairwise(one["networks"]["policy"] for one in states)
    ]
    assert moved[0] == pytest.approx(1e-2, rel=1e-2)  # of Adam's first step
    assert moved[0] > moved[1] > moved[2] > 0
    assert moved[3] == 0
    resumed = pair(dqn, lr=1e-2, final_lr=0.0, lr_updates=3)[which]
    resumed.set_state(states[2])
    for seed in (2, 3):
        resumed.train(batch(dqn, seed))
    for name, array in states[4]["networks"]["policy"].items():
        assert np.array_equal(array, resumed.get_weights()[name]), name


def test_a_falling_learning_rate_is_the_same_for_both() -> None:
    fast, slow = pair(ppo, lr=3e-3, final_lr=1e-4, lr_updates=5)
    for seed in range(3):
        for one in (fast, slow):
            one.train(batch(ppo, seed), 2, 64)
    assert_close(fast.get_weights(), slow.get_weights(), atol=1e-4)


@pytest.mark.parametrize("which", [0, 1])
def test_a_large_epsilon_keeps_steps_in_proportion_to_their_gradients(which: int) -> None:
    """Adam's first step is `lr` for every weight, unless epsilon is large beside its gradient; what
    a resumed learner does is the same.
    """
    moved = {}
    for epsilon in (1e-8, 1e3):
        learner = pair(a2c, lr=1e-2, adam_epsilon=epsilon, grad_clip=None)[which]
        resumed = pair(a2c, lr=1e-2, adam_epsilon=epsilon, grad_clip=None)[which]
        resumed.set_state(learner.get_state())
        before = {name: np.array(array) for name, array in learner.get_weights().items()}
        gradients = learner.compute_gradients(batch(a2c, 1))
        learner.apply_gradients(gradients)
        resumed.apply_gradients(gradients)
        after = learner.get_weights()
        moved[epsilon] = before["action_head.weight"] - after["action_head.weight"]
        for name in before:
            assert np.array_equal(after[name], resumed.get_weights()[name]), name
    gradient = np.asarray(gradients.values["action_head.weight"])
    np.testing.assert_allclose(np.abs(moved[1e-8]), 1e-2, rtol=1e-2)
    np.testing.assert_allclose(moved[1e3], 1e-2 * gradient / 1e3, rtol=1e-2, atol=1e-8)


def test_with_amsgrad_each_goes_on_from_the_state_of_the_other() -> None:
    """Or from one saved without it, whose squares of late stand for the largest."""
    fast, slow = pair(a2c, amsgrad=True)
    plain = pair(a2c)[0]
    for seed in range(3):
        for one in (fast, plain):
            one.train(batch(a2c, seed), 2, 64)
    for saved in (fast, plain):
        again = pair(a2c, amsgrad=True)[0]
        for one in (again, slow):
            one.set_state(saved.get_state())
        for seed in range(3, 6):
            results = [one.train(batch(a2c, seed), 2, 64) for one in (again, slow)]
            assert_close(results[0].stats, results[1].stats, atol=1e-3)
        assert_close(again.get_weights(), slow.get_weights(), atol=1e-4)
    assert "max_exp_avg_sq" in slow.optimiser_state("policy")["value_head.weight"]


def test_settings_of_the_learning_rate() -> None:
    config = dqn.Config(lr=1.0, final_lr=0.2, lr_updates=4)
    assert [config.learning_rate(n) for n in (0, 1, 2, 4, 9)] == pytest.approx(
        [1, 0.8, 0.6, 0.2, 0.2]
    )
    assert dqn.Config(lr=1.0).learning_rate(100) == 1.0
    slow = dqn.Config.make(env="CartPole-v1", lr=1e-5)
    assert slow.final_lr is not None
    assert slow.learning_rate(0) == slow.learning_rate(10**6) == 1e-5  # it never rises
    for wrong, told in (
        ({"final_lr": -1.0}, "final_lr must be 0 or above, or None, got -1.0"),
        ({"final_lr": float("nan")}, "final_lr must be 0 or above, or None, got nan"),
        ({"lr_updates": 0}, "lr_updates must be at least 1, got 0"),
        ({"adam_epsilon": 0.0}, "adam_epsilon must be above 0, got 0.0"),
    ):
        with pytest.raises(rf.BuildError, match=told):
            dqn.Config.make(**wrong)


@pytest.mark.parametrize("algorithm", [ppo, impala, appo])
@pytest.mark.parametrize("settings", [{"entropy_coef": 0.3}, {"env": "Pendulum-v1"}])
def test_with_entropy_and_with_continuous_actions(algorithm: Any, settings: dict[str, Any]) -> None:
    fast, slow = pair(algorithm, **settings)
    data = batch(algorithm, 0)
    if "env" in settings:
        rng = np.random.default_rng(0)
        data = data.with_columns(
            obs=rng.standard_normal((16, 20, 3), np.float32),
            bootstrap_obs=rng.standard_normal((20, 3), np.float32),
            actions=rng.standard_normal((16, 20, 1), np.float32),
        )
    passes = (2, 64) if algorithm is ppo else (2, None)
    for _ in range(3):
        for one in (fast, slow):
            one.train(data, *passes)
    assert_close(fast.get_weights(), slow.get_weights(), atol=1e-4)


@pytest.mark.parametrize("algorithm", [ppo, impala, appo])
def test_episodes_that_are_cut_and_begin_anew_within_one_step(algorithm: Any) -> None:
    """The value of the final observation stands for what would have followed."""
    made = batch(algorithm, 0)
    final = np.random.default_rng(1).standard_normal(made["obs"].shape, np.float32)
    gradients = [
        [learner.compute_gradients(data).values for learner in pair(algorithm)]
        for data in (made, made.with_columns(next_obs=final))
    ]
    assert_close(*gradients[1], atol=1e-5)
    without, within = gradients[0][0], gradients[1][0]
    assert not np.allclose(without["value_head.weight"], within["value_head.weight"], atol=1e-5)


@pytest.mark.parametrize("clips", [(0.5, 2.0), (2.0, 0.5)])
def test_impala_clips_what_has_moved_on(clips: tuple[float, float]) -> None:
    names = "vtrace_clip_rho_threshold", "vtrace_clip_pg_rho_threshold"
    fast, slow = pair(impala, **dict(zip(names, clips, strict=True)))
    data = batch(impala, 0)
    moved = np.random.default_rng(2).uniform(-3, 0, data.shape).astype(np.float32)
    both = [one.compute_gradients(data.with_columns(logp=moved)) for one in (fast, slow)]
    assert_close(both[0].values, both[1].values, atol=1e-5)
    assert_close(both[0].stats, both[1].stats, atol=1e-5)


@pytest.mark.parametrize("change", [{"double_q": False}, {"dueling": False}, {"n_step": 1}])
def test_dqn_with_parts_of_it_turned_off(change: dict[str, Any]) -> None:
    fast, slow = pair(dqn, target_network_update_freq=100, **change)
    for seed in range(5):  # the target network changes on the way
        for one in (fast, slow):
            one.train(replayed(seed, rows=64))
    assert_close(fast.get_target_weights(), slow.get_target_weights(), atol=1e-4)
    assert_close(fast.get_weights(), slow.get_weights(), atol=1e-4)


@pytest.mark.parametrize("algorithm", [ppo, dqn])
def test_each_goes_on_from_the_state_of_the_other(algorithm: Any) -> None:
    fast, slow = pair(algorithm)
    for seed in range(3):
        fast.train(batch(algorithm, seed))
    slow.set_state(fast.get_state())
    for seed in range(3, 6):
        for one in (fast, slow):
            one.train(batch(algorithm, seed))
    assert_close(fast.get_weights(), slow.get_weights(), atol=1e-4)
    again = pair(algorithm, seed=5)[0]
    again.set_state(slow.get_state())
    for one in (again, slow):
        one.train(batch(algorithm, 7))
    assert_close(again.get_weights(), slow.get_weights(), atol=1e-4)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_impala_learns_nothing_from_nothing_but_resets(framework: str) -> None:
    one = dict(zip(("numpy", "torch"), pair(impala), strict=True))[framework]
    empty = fragment(0, 1, 2).with_columns(valid=np.zeros((1, 2), bool))
    gradients = one.compute_gradients(empty)
    assert gradients.steps == 0
    assert all((value == 0).all() for value in gradients.values.values())
    assert set(gradients.stats.values()) == {0.0}


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_fragment_of_nothing_but_resets_teaches_nothing(framework: str) -> None:
    """It comes about with one environment and fragments of one step."""
    one = dict(zip(("numpy", "torch"), pair(a2c), strict=True))[framework]
    empty = fragment(0, 1, 2).with_columns(valid=np.zeros((1, 2), bool))
    before = one.get_weights()
    gradients = one.compute_gradients(empty)
    assert gradients.steps == 0
    assert gradients.stats == {}
    assert all((value == 0).all() for value in gradients.values.values())
    assert one.train(empty, 2, 64).stats == {}
    after = one.get_weights()
    assert all((before[name] == after[name]).all() for name in before)


def test_a_state_is_exact() -> None:
    """Also for minibatches that are drawn later."""
    first, second = pair(ppo)[0], pair(ppo, seed=1)[0]
    first.train(batch(ppo, 0), 2, 64)
    second.set_state(first.get_state())
    for one in (first, second):
        one.train(batch(ppo, 1), 2, 64)
    ours, theirs = first.get_weights(), second.get_weights()
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_a_snapshot_does_not_change() -> None:
    fast = pair(ppo)[0]
    snapshot = fast.get_weights()
    before = {name: array.copy() for name, array in snapshot.items()}
    fast.train(batch(ppo, 0))
    assert all((before[name] == snapshot[name]).all() for name in before)


# -- which learner it is ---------------------------------------------------------------------------


def with_torch(m: Any, rows: Any, cfg: Any) -> Any:
    import torch

    for step in ppo.update(m, rows, cfg):
        yield dataclasses.replace(step, loss=torch.nn.functional.softplus(step.loss))


def with_losses(m: Any, rows: Any, cfg: Any) -> Any:
    """PPO's with a penalty, in the words of both frameworks."""
    logp, _, values = m.policy.evaluate(rows.obs, rows.actions)
    ratio = (logp - rows.logp).exp()
    penalty = losses.mean((ratio - 1).square()) + 0.1 * values.abs().mean()
    for step in ppo.update(m, rows, cfg):
        yield dataclasses.replace(step, loss=step.loss + penalty)


@pytest.mark.parametrize(
    ("settings", "hindrance"),
    [
        ({"update": with_torch}, "with_torch uses what the tape has not: TypeError: softplus"),
        ({"model": "cnn"}, "the network 'policy' is 'cnn'"),
        ({"model": dict}, "the network 'policy' is one of your own"),
        ({"num_gpus": 1}, "num_gpus=1"),
    ],
    ids=["update", "cnn", "own", "gpu"],
)
def test_what_numpy_cannot_do_is_torch(settings: dict[str, Any], hindrance: str) -> None:
    """The reason is told, and is an error where NumPy is asked for."""
    spec = Workers(ppo.Config(env="CartPole-v1")).spec
    if "model" in settings:
        space = rf_images() if settings["model"] == "cnn" else spec.observation_space
        spec = dataclasses.replace(spec, model=settings["model"], observation_space=space)
        settings = {}
    config = dataclasses.replace(ppo.Config(), **settings)
    assert not learns_in_numpy(spec, config)
    framework, why = framework_and_reason(spec, config)
    assert framework == "torch"
    assert hindrance in why
    with pytest.raises(rf.BuildError, match=hindrance):
        learns_in_numpy(spec, dataclasses.replace(config, framework="numpy"))


def test_an_update_of_ones_own_that_keeps_to_losses_learns_in_numpy() -> None:
    """What it learns is what torch learns from it."""
    fast, slow = pair(ppo, update=with_losses)
    assert framework_and_reason(fast.acting.spec, fast.config)[0] == "numpy"
    usual = pair(ppo)[0]
    for seed in range(3):
        results = [one.train(batch(ppo, seed), 2, 64) for one in (fast, slow, usual)]
        assert_close(results[0].stats, results[1].stats, atol=1e-3)
    assert_close(fast.get_weights(), slow.get_weights(), atol=1e-4)
    theirs = usual.get_weights()
    assert any(not np.allclose(a, theirs[n], atol=1e-3) for n, a in fast.get_weights().items())


def test_one_that_uses_torch_learns_in_torch() -> None:
    """Without being asked for it."""
    trained = rf.train(
        "ppo", "CartPole-v1", until={"steps": 300}, engine="sim", update=with_torch, hidden=(8,),
        num_workers=0, train_batch_size=128, rollout_fragment_length=8, num_envs_per_worker=16,
    )  # fmt: skip
    assert np.isfinite(trained.history[-1]["policy_loss"])


def rf_images() -> Any:
    from gymnasium import spaces

    return spaces.Box(0, 255, (4, 84, 84), np.uint8)


def test_an_unknown_framework_is_refused() -> None:
    with pytest.raises(rf.BuildError, match="framework must be one of 'auto', 'torch', 'numpy'"):
        ppo.Config.make(framework="jax")


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_learns_small_networks_in_numpy(name: str) -> None:
    """But MAML, which learns from gradients of gradients, and R2D2, which remembers: in torch."""
    algorithm = get_algorithm(name)
    env = "Pendulum-v1" if name in ("apex_ddpg", "ddpg", "td3") else algorithm.Config().env
    workers = Workers(algorithm.Config(env=env))
    framework, why = framework_and_reason(workers.spec, workers.config)
    assert framework == ("torch" if name in ("maml", "r2d2") else "numpy"), why


@pytest.mark.parametrize("name", ["ppo", "a3c", "dqn", "impala"])
@pytest.mark.proc
def test_training_a_small_network_never_imports_torch(name: str) -> None:
    """Neither in the driver nor, for gradients, in a worker."""
    code = f"""
import sys, rillflow as rf
rf.train({name!r}, "CartPole-v1", engine="sim", num_workers=1, until={{"steps": 3000}})
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
