"""Several learners in processes of their own learn what one learns, or end together."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import a3c, appo, dqn, impala, ppo, sac
from rillflow.errors import BuildError
from rillflow.learning.learner_group import LearnersLost
from rillflow.learning.make_learner import make_learner
from rillflow.learning.torch_together import FirstLearner
from tests.engines.processes import children, gone
from tests.rl.test_device_learner import ACTIONS, SPACE, fragment, replayed

pytestmark = pytest.mark.proc

CASES: dict[str, Any] = {
    "ppo": (ppo, fragment, {"epochs": 3, "minibatch": 7}),
    "impala": (impala, fragment, {}),
    "appo": (appo, fragment, {"epochs": 2}),
    "dqn": (dqn, replayed, {}),
}


def learner(algorithm: Any, learners: int, seed: int = 3, **settings: Any) -> Any:
    config = algorithm.Config(
        env="Corridor", framework="torch", hidden=(32,), num_learners=learners, **settings
    )
    return make_learner(config.policy_spec(SPACE, ACTIONS), config, seed)


def close(one: Any, other: Any, atol: float) -> None:
    assert set(one) == set(other)
    for name in one:
        np.testing.assert_allclose(one[name], other[name], atol=atol, err_msg=name)


@pytest.mark.parametrize("case", list(CASES))
def test_two_learners_learn_what_one_learns(case: str) -> None:
    """Up to rounding: weights, figures, errors of rows by their keys, targets; also from a state
    in the middle. Only the first has a state."""
    algorithm, make, options = CASES[case]
    before = children()
    one, two = (learner(algorithm, number) for number in (1, 2))
    try:
        assert isinstance(two, FirstLearner)
        assert children() == before, "nothing is started before there is something to learn"
        for number in range(3):
            alone, together = (lr.train(make(number), **options) for lr in (one, two))
            close(alone.stats, together.stats, 1e-4)
            rows, theirs = (getattr(told, "rows", {}) for told in (alone, together))
            close(rows, theirs, 1e-4)
        assert len(children() - before) == 1
        close(one.get_weights(), two.get_weights(), 2e-4)
        state = one.get_state()
        two.set_state(state)
        close(one.get_weights(), two.get_weights(), 0)
        for number in range(3, 5):
            for lr in (one, two):
                lr.train(make(number), **options)
        close(one.get_weights(), two.get_weights(), 2e-4)
        assert set(two.get_state()) == set(state)
        if one.target is not None:
            for lr in (one, two):
                lr.update_target()
                lr.train(make(7), **options)
            close(one.get_target_weights(), two.get_target_weights(), 2e-4)
    finally:
        two.close()
    assert gone(list(children() - before))


def test_fewer_rows_than_learners_are_learned_from_by_each() -> None:
    one, three = learner(ppo, 1), learner(ppo, 3)
    try:
        for lr in (one, three):
            lr.train(fragment(0), epochs=1, minibatch=2)
        close(one.get_weights(), three.get_weights(), 2e-4)
    finally:
        three.close()


def test_a_step_that_is_not_finite_is_left_out_by_all() -> None:
    one, two = learner(ppo, 1), learner(ppo, 2)
    poisoned = fragment(1)
    rewards = poisoned["rewards"].copy()
    rewards[0, 0] = np.nan
    try:
        for lr in (one, two):
            lr.train(fragment(0), epochs=1, minibatch=8)
            with pytest.warns(UserWarning, match="left out"):
                lr.train(poisoned.with_columns(rewards=rewards), epochs=1, minibatch=8)
            lr.train(fragment(2), epochs=1, minibatch=8)
        close(one.get_weights(), two.get_weights(), 2e-4)
    finally:
        two.close()


def test_a_learner_that_dies_is_one_error_at_once_and_none_is_left() -> None:
    before = children()
    two = learner(ppo, 2)
    two.train(fragment(0), epochs=1, minibatch=8)
    (other,) = children() - before
    os.kill(other, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(LearnersLost, match=r"learner 1 was ended by signal 9.*last checkpoint"):
        two.train(fragment(1), epochs=2, minibatch=8)
    assert time.monotonic() - began < 60
    assert gone(list(children() - before))
    two.close()


def test_what_a_learner_raises_is_told_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it cannot be made, because there is nothing to make it of."""
    two = learner(ppo, 2)
    monkeypatch.setattr(two, "spec", "nothing")
    before = children()
    with pytest.raises(LearnersLost, match=r"one raised TypeError: replace"):
        two.train(fragment(0))
    assert gone(list(children() - before))


def test_what_several_learners_cannot_do_is_told() -> None:
    with pytest.raises(BuildError, match="num_learners must be at least 1"):
        ppo.Config(num_learners=0)
    with pytest.raises(BuildError, match="give num_gpus=2, or num_gpus=0; got 1"):
        ppo.Config(num_learners=2, num_gpus=1)
    with pytest.raises(BuildError, match=r"updates that draw no random numbers.*sac has"):
        learner(sac, 2)
    cfg = a3c.Config(env="Corridor", num_learners=2)
    gradients = make_learner(cfg.policy_spec(SPACE, ACTIONS), cfg, 0)
    with pytest.raises(BuildError, match="need one learner"):
        gradients.apply_gradients(None)  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="is for one policy"):
        rf.train("ppo", "MultiAgentCartPole", policies="each", until=1, num_learners=2)


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("ppo", {"train_batch_size": 128, "num_sgd_iter": 2}),
        ("impala", {"learner_placement": "process"}),
        ("impala", {"learner_placement": "thread"}),
    ],
    ids=["driver", "process", "thread"],
)
def test_a_run_learns_with_two_learners_and_leaves_nothing(
    algorithm: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Wherever its first learner is; it is saved once, and goes on with as many."""
    before = children()
    run = rf.train(
        algorithm,
        "CartPole-v1",
        until={"steps": 600},
        run_dir=tmp_path / "run",
        num_workers=1,
        num_envs_per_worker=4,
        num_learners=2,
        seed=2,
        **settings,
    )
    assert run.steps >= 600
    assert gone(list(children() - before))
    again = rf.resume(tmp_path / "run", until={"steps": 1200})
    assert again.steps >= 1200
    assert gone(list(children() - before))
