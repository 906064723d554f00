"""Minibatches of rows and of fragments: one rule for both learners, and the same results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from rillflow.algorithms import impala, ppo
from rillflow.learning import losses
from rillflow.learning import rows as rows_of
from rillflow.learning.make_learner import make_learner
from rillflow.learning.prepare import flat_rows, fragments
from rillflow.learning.update import Rows, Step, Steps
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo

TIME, ENVS = 24, 6


def along_time(m: Any, rows: Rows, cfg: Any) -> Steps:
    """A loss that looks along the fragments: every reward to go counts for what was done."""
    logp, entropy, values, _ = m.policy.evaluate_fragments(rows)
    ended = rows.terminated | rows.truncated
    none = 0 * rows.rewards
    to_go, _ = losses.gae(rows.rewards, none, none, ended, ended, cfg.gamma, 1.0)
    loss = losses.policy_gradient_loss(logp, to_go) + losses.value_loss(values, to_go)
    yield Step(loss - 0.01 * losses.entropy_bonus(entropy), stats={"seen": to_go.mean()})


def by_step(m: Any, rows: Rows, cfg: Any) -> Steps:
    """A loss that looks at each step alone, so it takes rows of any shape."""
    logp, _, values = m.policy.evaluate(rows.obs, rows.actions)
    loss = -(logp * rows.rewards).mean() + losses.value_loss(values, rows.rewards)
    yield Step(loss, stats={"seen": rows.rewards.mean()})


def without_bootstrap(m: Any, batch: Mapping[str, Any], cfg: Any) -> Rows:
    """Fragments whose timeless columns were dropped: they are fragments all the same."""
    return Rows({name: batch[name] for name in ("obs", "actions", "rewards")})


def flat(m: Any, batch: Mapping[str, Any], cfg: Any) -> Rows:
    return flat_rows(m, {name: batch[name] for name in ("obs", "actions", "rewards")}, cfg)


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "fragments": (fragments, along_time),
    "without bootstrap_obs": (without_bootstrap, by_step),
    "flat rows": (flat, by_step),
}


def trained(framework: str, case: str, env: str, size: int | None) -> tuple[Any, Any]:
    prepare, update = CASES[case]
    settings = {"num_envs_per_worker": ENVS, "rollout_fragment_length": TIME}
    config = ppo.Config(
        env=env, num_workers=0, framework=framework, prepare=prepare, update=update, **settings
    )
    workers = Workers(config)
    worker = RolloutWorker(config, workers.spec, ActorInfo("worker", 0, 0, 1, 1))
    learner = make_learner(workers.spec, config, 1)
    worker.set_weights(learner.get_weights())
    try:
        worker.sample()
        result = learner.train(worker.sample(), 2, size)
    finally:
        worker.close()
    return learner, result


@pytest.mark.parametrize("size", [None, 5, 50, 100, 10_000])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("case", CASES)
def test_both_learners_cut_the_same_minibatches(case: str, env: str, size: int | None) -> None:
    fast, told = trained("numpy", case, env, size)
    slow, same = trained("torch", case, env, size)
    assert type(fast).__name__ == "NumpyLearner"
    assert fast.updates == slow.updates
    assert fast.rng.bit_generator.state == slow.rng.bit_generator.state
    assert told.stats == pytest.approx(same.stats, rel=1e-5)
    weights, others = fast.get_weights(), slow.get_weights()
    for name in others:
        np.testing.assert_allclose(weights[name], others[name], atol=1e-5, err_msg=name)
    cut = size is not None and size < TIME * ENVS
    whole = 1 if not cut else TIME * ENVS // size
    if case != "flat rows" and cut:  # whole environments, so many that `size` is not exceeded
        whole = ENVS // max(1, size // TIME)
    assert fast.updates == 2 * whole


def test_rows_are_fragments_however_few_of_their_columns_are_left() -> None:
    """What tells them is a column without time, or a number of each step with two axes."""
    assert rows_of.time_major({"obs": np.zeros((4, 2, 3)), "bootstrap_obs": np.zeros((2, 3))})
    assert rows_of.time_major({"obs": np.zeros((4, 2, 3)), "rewards": np.zeros((4, 2))})
    assert rows_of.time_major({"rewards": torch.zeros(4, 2)})
    assert not rows_of.time_major({"obs": np.zeros((4, 3)), "rewards": np.zeros(4)})
    assert not rows_of.time_major({"obs": np.zeros((4, 3)), "actions": np.zeros((4, 2))})


@pytest.mark.parametrize("size", [7, 48])
def test_impala_learns_minibatches_of_fragments_alike(size: int) -> None:
    found = {}
    for framework in ("numpy", "torch"):
        config = impala.Config(
            env="CartPole-v1",
            num_workers=0,
            framework=framework,
            num_envs_per_worker=ENVS,
            rollout_fragment_length=TIME,
        )
        workers = Workers(config)
        worker = RolloutWorker(config, workers.spec, ActorInfo("worker", 0, 0, 1, 1))
        learner = make_learner(workers.spec, config, 1)
        worker.set_weights(learner.get_weights())
        try:
            learner.train(worker.sample(), 2, size)
        finally:
            worker.close()
        found[framework] = learner
    assert found["numpy"].updates == found["torch"].updates == 2 * ENVS // max(1, size // TIME)
    others = found["torch"].get_weights()
    for name, array in found["numpy"].get_weights().items():
        np.testing.assert_allclose(array, others[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, None),
        ({"train_batch_size": 1900, "sgd_minibatch_size": 256}, None),  # rounds make it 2,048
        (
            {"sgd_minibatch_size": 1500},
            "2,048 rows leaves out 548 .* sgd_minibatch_size=1024 .* 0$",
        ),
        ({"sgd_minibatch_size": 3000}, None),  # all of them at once
        ({"sgd_minibatch_size": 1500, "memory": "lstm"}, None),  # those are whole sequences
        (
            {"num_workers": 0, "num_envs_per_worker": 1, "sgd_minibatch_size": 700},
            "648 .*=682 .* 2$",
        ),
    ],
)
def test_a_pass_that_leaves_out_much_is_told_with_a_size_that_does_not(
    settings: dict[str, Any], said: str | None
) -> None:
    """Rows that are never a whole minibatch are no accident that a user has to find."""
    cfg = ppo.Config(env=None, **settings)
    assert len(cfg.notes) == (said is not None)
    if said is not None:
        assert re.search(said, cfg.notes[0])
        size = int(re.findall(r"sgd_minibatch_size=(\d+)", cfg.notes[0])[0])
        assert ppo.Config(env=None, **settings | {"sgd_minibatch_size": size}).notes == ()
