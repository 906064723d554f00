"""BC, MARWIL, CQL and IQL: updates by hand, alike in both frameworks, and what their papers say."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import bc, cql, iql, marwil
from rillflow.experience.batch import SampleBatch
from rillflow.learning.make_learner import make_learner
from rillflow.learning.numpy_learner import NumpyLearner
from rillflow.results.trained import Trained
from rillflow.rl.workers import Workers
from tests.datasets.written import chain

ENVS = {bc: "CartPole-v1", marwil: "CartPole-v1", cql: "Pendulum-v1", iql: "Pendulum-v1"}
FOUR = pytest.mark.parametrize("algorithm", ENVS, ids=["bc", "marwil", "cql", "iql"])
FRAMEWORKS = pytest.mark.parametrize("framework", ["numpy", "torch"])


def learner_of(algorithm: Any, framework: str = "numpy", env: Any = None, **settings: Any) -> Any:
    few = {"hidden": (8,), "batches_per_draw": 1, **settings}
    workers = Workers(algorithm.Config(env=env or ENVS[algorithm], framework=framework, **few))
    return make_learner(workers.spec, workers.config, 0)


def rows_of(learner: Any, seed: int = 0, count: int = 32, scale: float = 1.0) -> SampleBatch:
    """What the data gives: rewards that depend on what was done."""
    rng = np.random.default_rng(seed)
    spec = learner.spec
    obs = rng.standard_normal((2, 1, count, *spec.observation_shape)).astype(np.float32)
    if spec.actions.kind == "discrete":
        actions = rng.integers(0, 2, (1, count))
        rewards = (actions == (obs[0, ..., 0] > 0)) * 4.0
    else:
        actions = rng.uniform(-2, 2, (1, count, 1)).astype(np.float32)
        rewards = 4.0 - np.square(actions[..., 0] - obs[0, ..., 0])
    return SampleBatch(
        {
            "obs": obs[0],
            "next_obs": obs[1],
            "actions": actions,
            "rewards": (scale * rewards).astype(np.float32),
            "discount": np.full((1, count), 0.9, np.float32),
        }
    )


@FOUR
def test_both_frameworks_learn_the_same(algorithm: Any) -> None:
    fast, slow = (learner_of(algorithm, framework) for framework in ("numpy", "torch"))
    assert isinstance(fast, NumpyLearner)
    for step in range(4):
        batch = rows_of(fast, step)
        mine, theirs = fast.learn(batch), slow.learn(batch)
        assert mine.stats == pytest.approx(dict(theirs.stats), rel=2e-3, abs=2e-4)
    for name, weights in fast.get_state()["networks"].items():
        for key, array in weights.items():
            other = slow.get_state()["networks"][name][key]
            np.testing.assert_allclose(array, other, rtol=2e-3, atol=3e-4, err_msg=name)


@FOUR
@FRAMEWORKS
def test_a_learner_goes_on_from_its_state(algorithm: Any, framework: str) -> None:
    """The usual sizes of returns and advantages are among what is saved."""
    one, two = learner_of(algorithm, framework), learner_of(algorithm, framework)
    one.learn(rows_of(one))
    two.set_state(one.get_state())
    assert one.learn(rows_of(one, 1)).stats == two.learn(rows_of(two, 1)).stats


# -- BC -------------------------------------------------------------------------------------------


@FRAMEWORKS
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_bc_is_the_mean_log_probability_of_what_was_done(framework: str, env: str) -> None:
    learner = learner_of(bc, framework, env)
    batch = rows_of(learner)
    logp, _, _ = learner.m.policy.evaluate(
        *(learner.rows(batch)[name] for name in ("obs", "actions"))
    )
    told = learner.learn(batch).stats
    assert told["policy_loss"] == pytest.approx(-float(np.asarray(_plain(logp)).mean()), abs=1e-5)


def _plain(x: Any) -> Any:
    return x.detach() if hasattr(x, "detach") else x


def test_bc_becomes_what_the_data_is() -> None:
    learner = learner_of(bc, lr=1e-2)
    rng = np.random.default_rng(0)
    for step in range(300):
        batch = rows_of(learner, step, 64)
        right = batch["obs"][..., 0] > 0
        chosen = np.where(rng.random(right.shape) < 0.75, right, ~right).astype(np.int64)
        learner.learn(batch.with_columns(actions=chosen))
    assert learner.learn(batch).stats["entropy"] == pytest.approx(
        -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)), abs=0.05
    )


# -- MARWIL ---------------------------------------------------------------------------------------


@FRAMEWORKS
def test_marwil_weighs_actions_by_advantages_of_their_usual_size(framework: str) -> None:
    """The first update by hand: both sizes are those of the batch."""
    learner = learner_of(marwil, framework, beta=1.5)
    batch = rows_of(learner)
    rows = {name: np.asarray(column) for name, column in learner.rows(batch).items()}
    policy = learner.m.policy
    logp, _, values = (
        np.asarray(_plain(x)) for x in policy.evaluate(*(learner.rows(batch)[n] for n in _TAKEN))
    )
    after = np.asarray(_plain(policy.values(learner.rows(batch)["next_obs"])))
    size = np.sqrt(np.mean(rows["rewards"] ** 2))
    target = rows["rewards"] / size + rows["discount"] * after
    advantages = target - values
    weights = np.minimum(np.exp(1.5 * advantages / np.sqrt(np.mean(advantages**2))), 20.0)
    told = learner.learn(batch).stats
    assert told["return_size"] == pytest.approx(size, rel=1e-5)
    assert told["weight"] == pytest.approx(weights.mean(), rel=1e-4)
    assert told["policy_loss"] == pytest.approx(-(logp * weights).mean(), rel=1e-4)
    assert told["value_loss"] == pytest.approx(np.mean((values - target) ** 2) / 2, rel=1e-4)


_TAKEN = ("obs", "actions")


@FRAMEWORKS
@pytest.mark.parametrize("scale", [10.0, 1e-3])
def test_marwil_learns_the_same_whatever_the_unit_of_rewards(framework: str, scale: float) -> None:
    """A moving norm that begins at a fixed size, or hardly moves, would tell the units apart."""
    one, other = learner_of(marwil, framework), learner_of(marwil, framework)
    for step in range(20):
        mine = one.learn(rows_of(one, step)).stats
        theirs = other.learn(rows_of(other, step, scale=scale)).stats
        assert theirs["weight"] == pytest.approx(mine["weight"], rel=2e-3)
    for name, weight in one.get_weights().items():
        np.testing.assert_allclose(other.get_weights()[name], weight, rtol=1e-2, atol=1e-3)
    assert theirs["return_size"] == pytest.approx(scale * mine["return_size"], rel=1e-3)


def test_marwil_without_beta_is_bc() -> None:
    cloned, weighed = learner_of(bc), learner_of(marwil, beta=0.0)
    batch = rows_of(cloned)
    told = weighed.learn(batch).stats
    assert told["weight"] == 1.0
    assert told["policy_loss"] == pytest.approx(cloned.learn(batch).stats["policy_loss"], rel=1e-5)


def test_marwil_prefers_what_went_well() -> None:
    """Where BC tells a coin's two sides apart by nothing, MARWIL takes the one that paid."""
    learner = learner_of(marwil, lr=1e-2)
    for step in range(300):
        learner.learn(rows_of(learner, step, 64))
    batch = rows_of(learner, 1000, 256)
    obs = batch["obs"][0]
    trained = Trained(learner.config, learner.spec, dict(learner.get_weights()), [])
    assert np.mean(trained.act(obs) == (obs[:, 0] > 0)) > 0.9


# -- CQL ------------------------------------------------------------------------------------------


@FRAMEWORKS
def test_without_its_term_cql_is_sac(framework: str) -> None:
    from rillflow.algorithms import sac

    learner = learner_of(cql, framework, conservative_weight=0.0)
    other = learner_of(sac, framework, "Pendulum-v1")
    batch = rows_of(learner)
    mine, theirs = learner.assess(batch).stats, other.assess(batch).stats
    assert mine["q_loss"] == pytest.approx(theirs["q_loss"], rel=1e-5)
    assert learner.modules.networks.keys() == other.modules.networks.keys()


@FRAMEWORKS
def test_a_critic_that_knows_nothing_pays_the_volume_of_the_actions(framework: str) -> None:
    """Uniform draws have the density 1/2 on -1 ... 1, whatever the bounds are: here -2 ... 2."""
    learner = learner_of(cql, framework, sampled_actions=3)
    weights = {name: array * 0 for name, array in learner.m.by_name["q"].get_weights().items()}
    learner.m.by_name["q"].set_weights(weights)
    drawn, logp = learner.m.actor.uniform(500)
    assert np.asarray(logp) == pytest.approx(np.full(500, -math.log(2)))
    assert np.abs(np.asarray(drawn)).max() == pytest.approx(2, abs=0.05)
    batch = rows_of(learner, count=2000)
    gap = learner.assess(batch).stats["conservative_gap"]
    assert gap == pytest.approx(2 * math.log(2), abs=0.15), "two critics, each log 2"


def test_cql_holds_unseen_actions_for_less_than_those_of_the_data() -> None:
    """The data has torques from 1 to 2 alone, and all torques pay the same."""

    def batch(seed: int) -> SampleBatch:
        rows = rows_of(learner, seed, 128)
        torque = 1 + np.random.default_rng(seed).random((1, 128, 1), np.float32)
        return rows.with_columns(actions=torque, rewards=np.ones((1, 128), np.float32))

    worth = {}
    for weight in (5.0, 0.0):
        learner = learner_of(cql, conservative_weight=weight, hidden=(32,), lr=3e-3)
        for step in range(300):
            learner.learn(batch(step))
        obs = rows_of(learner, 5, 64)["obs"][0]
        worth[weight] = [
            float(np.mean(learner.m.frozen.q(obs, np.full((64, 1), torque, np.float32))))
            for torque in (1.5, -1.5)
        ]
    below = {weight: seen - unseen for weight, (seen, unseen) in worth.items()}
    assert below[5.0] > 3
    assert below[5.0] > 2 * below[0.0], "that was the term"


# -- IQL ------------------------------------------------------------------------------------------


@FRAMEWORKS
def test_iql_by_hand(framework: str) -> None:
    """Advantages are weighed by their size, but by no less than twice the critics' errors."""
    learner = learner_of(iql, framework, expectile=0.8, beta=2.0)
    batch = rows_of(learner)
    rows = learner.rows(batch)
    taken = rows["obs"], rows["actions"]
    logp, _, values = (np.asarray(_plain(x)) for x in learner.m.policy.evaluate(*taken))
    worth = np.asarray(_plain(learner.m.target.q(*taken))).min(0)
    q = np.asarray(_plain(learner.m.q(*taken)))
    after = np.asarray(_plain(learner.m.frozen.policy.values(rows["next_obs"])))
    errors = q - (np.asarray(rows["rewards"]) + 0.9 * after)
    advantages = worth - values
    sides = np.where(advantages > 0, 0.8, 0.2)
    size = np.sqrt(np.mean(advantages**2) + 4 * np.mean(errors**2))
    weights = np.minimum(np.exp(2 * advantages / size), 100.0)
    told = learner.learn(batch).stats
    assert told["value_loss"] == pytest.approx(np.mean(sides * advantages**2) / 2, rel=1e-4)
    assert told["policy_loss"] == pytest.approx(-(logp * weights).mean(), rel=1e-4)
    assert told["q_loss"] == pytest.approx(np.sum(np.mean(errors**2, 1)) / 2, rel=1e-4)


# -- runs -----------------------------------------------------------------------------------------


def data_for(path: Path, algorithm: Any) -> str:
    if ENVS[algorithm] == "CartPole-v1":
        return str(chain(path, (30, 40, 50)))
    from rillflow.results import record_data

    record_data("Pendulum-v1", path, 2)
    return str(path)


@FOUR
@pytest.mark.parametrize(
    "engine",
    [
        "sim",
        pytest.param("local", marks=pytest.mark.proc),
        pytest.param("ray", marks=pytest.mark.ray),
    ],
)
def test_it_learns_from_data_with_several_workers(
    tmp_path: Path, algorithm: Any, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "ray":
        request.getfixturevalue("users_ray")
    name = algorithm.__name__.rpartition(".")[2]
    trained = rf.train(
        name, ENVS[algorithm], data=data_for(tmp_path / "data", algorithm), until=2000,
        engine=engine, num_workers=2, train_batch_size=64, batches_per_draw=4, hidden=(8,),
        eval_every=1000, eval_episodes=2,
    )  # fmt: skip
    last = trained.history[-1]
    assert last["steps"] >= 2000
    assert last["episodes"] == 0
    assert math.isfinite(last["eval_return"])
    assert trained.best is not None


@FOUR
def test_the_same_seed_gives_the_same_run(tmp_path: Path, algorithm: Any) -> None:
    name = algorithm.__name__.rpartition(".")[2]
    data = data_for(tmp_path / "data", algorithm)
    few = {"data": data, "hidden": (8,), "train_batch_size": 32, "batches_per_draw": 2}
    one, two = (
        rf.train(name, ENVS[algorithm], until=512, engine="sim", seed=3, eval_every=None, **few)
        for _ in range(2)
    )
    assert all(np.array_equal(one.weights[key], two.weights[key]) for key in one.weights)


@FOUR
def test_a_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path, algorithm: Any) -> None:
    data = data_for(tmp_path / "data", algorithm)
    few = {"data": data, "hidden": (8,), "train_batch_size": 32, "batches_per_draw": 2}
    workers = Workers(algorithm.Config(env=ENVS[algorithm], **few))

    def flow() -> Any:
        from rillflow.rl.rollouts import ParallelRollouts

        again = Workers(dataclasses.replace(workers.config))
        return algorithm.plan(ParallelRollouts(again), again)

    with flow().run("sim", seed=1) as run:
        next(run)
        state = run.get_state()
        expected = [next(run).stats for _ in range(3)]
    with flow().run("sim", seed=2) as run:
        run.set_state(state)
        assert [next(run).stats for _ in range(3)] == expected


@pytest.mark.parametrize(
    ("algorithm", "settings", "message"),
    [
        (marwil, {"beta": -1.0}, r"beta must be 0 or above"),
        (marwil, {"norm_rate": 0.0}, r"norm_rate must be above 0"),
        (marwil, {"largest_weight": 0.0}, r"largest_weight must be above 0"),
        (iql, {"expectile": 1.0}, r"expectile must be between 0 and 1"),
        (iql, {"tau": 0.0}, r"tau must be above 0"),
        (cql, {"sampled_actions": 0}, r"sampled_actions must be at least 1"),
        (cql, {"conservative_weight": -1.0}, r"conservative_weight must be 0 or above"),
        (cql, {"alpha_lr": 0.0}, r"alpha_lr must be above 0"),
        (cql, {"training_intensity": 2.0}, r"unknown setting 'training_intensity'"),
        (bc, {"memory": "lstm"}, r"memory='lstm' remembers, and bc learns from single steps"),
    ],
)
def test_settings_that_cannot_work_are_refused(algorithm: Any, settings: Any, message: str) -> None:
    with pytest.raises(rf.BuildError, match=message):
        Workers(algorithm.Config(**settings))


@pytest.mark.parametrize("algorithm", [cql, iql], ids=["cql", "iql"])
def test_actions_of_choices_are_refused(algorithm: Any) -> None:
    with pytest.raises(rf.BuildError, match=r"Discrete"):
        Workers(algorithm.Config(env="CartPole-v1"))
