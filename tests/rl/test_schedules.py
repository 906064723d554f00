"""Schedules, a target KL, values and gradients that are cut: wherever somebody learns or acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import a2c, dqn, get_algorithm, impala, ppo, sac
from rillflow.learning import losses
from rillflow.learning.make_learner import make_learner
from rillflow.learning.update import Step
from rillflow.policies.target_networks import Polyak
from rillflow.rl.replay_actor import ReplayActor
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.runs.job import Job
from rillflow.types import ActorInfo
from tests.rl.test_learner import fragment, replayed
from tests.runs.test_resume import (
    ALGORITHMS,
    Died,
    begin,
    dies_at,
    directory_of,
    figures,
    go_on,
    same_weights,
)

both = pytest.mark.parametrize("framework", ["numpy", "torch"])
Linear = rf.Linear


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def learner_for(algorithm: Any, framework: str, **settings: Any) -> Any:
    config = algorithm.Config(framework=framework, **settings)
    return make_learner(Workers(config).spec, config, 0)


@both
def test_an_update_sees_the_numbers_of_the_moment(framework: str) -> None:
    """The rate reaches the optimiser, and the figures tell all of them."""
    seen: list[tuple[float, float]] = []

    def update(m: Any, rows: Any, cfg: Any) -> Any:
        seen.append((cfg.clip_param, cfg.lr))
        yield from ppo.update(m, rows, cfg)

    learner = learner_for(
        ppo,
        framework,
        update=update,
        lr=Linear(1e-3, 0.0, steps=80),
        clip_param=Linear(0.4, 0.2, steps=80),
    )
    seen.clear()  # of the trial
    told = [learner.train(fragment(seed)).stats for seed in range(4)]  # 40 steps each
    rates = [1e-3, 5e-4, 0.0, 0.0]
    assert [lr for _, lr in seen] == pytest.approx(rates)
    assert [clip for clip, _ in seen] == pytest.approx([0.4, 0.3, 0.2, 0.2])
    assert [stats["lr"] for stats in told] == pytest.approx(rates)
    before = learner.get_weights()["action_head.weight"].copy()
    learner.train(fragment(9))
    assert np.array_equal(learner.get_weights()["action_head.weight"], before)


@both
def test_a_scheduled_rate_is_that_of_the_optimiser(framework: str) -> None:
    """Step by step the weights are those of learners that are given each rate by hand."""
    learner = learner_for(a2c, framework, lr=Linear(2e-3, 1e-3, steps=80))
    for rate, seed in ((2e-3, 0), (1.5e-3, 1), (1e-3, 2)):
        by_hand = learner_for(a2c, framework, lr=rate)
        by_hand.set_state(learner.get_state())
        learner.train(fragment(seed))
        by_hand.train(fragment(seed))
        ours, theirs = learner.get_weights(), by_hand.get_weights()
        for name in theirs:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6, atol=1e-8)


def test_networks_are_described_anew() -> None:
    """What a module's description holds follows too: how far targets follow, other rates."""
    learner = learner_for(
        sac,
        "numpy",
        env="Pendulum-v1",
        tau=Linear(0.1, 0.2, steps=2000),
        alpha_lr=Linear(1e-3, 2e-3, steps=2000),
    )
    assert learner.modules.targets["q"] == Polyak(pytest.approx(0.15))  # after 1000 steps of 2000
    learner.trained = 256 * 1000
    learner.follow_schedules()
    assert learner.modules.targets["q"] == Polyak(0.2)
    assert learner.optimisers["log_alpha"].lr == 2e-3
    assert learner.optimisers["q"].lr == learner.config.lr


def test_a_state_holds_how_far_the_run_is() -> None:
    one = learner_for(ppo, "numpy", lr=Linear(1e-3, 0.0, steps=400), target_kl=1e-9)
    one.train(fragment(0), 3)
    one.train(fragment(1), 3)
    two = learner_for(ppo, "torch", lr=Linear(1e-3, 0.0, steps=400), target_kl=1e-9)
    two.set_state(one.get_state())
    stats = two.train(fragment(2)).stats
    assert stats["lr"] == pytest.approx(8e-4)
    assert stats["kl_stops"] >= 2
    old = {k: v for k, v in one.get_state().items() if k not in ("trained", "kl_stops", "rewards")}
    two.set_state(old)
    assert two.trained == 0


def test_workers_follow_by_the_steps_that_they_have_made() -> None:
    config = dqn.Config(
        num_workers=2,
        num_envs_per_worker=4,
        rollout_fragment_length=5,
        epsilon=Linear(1.0, 0.0, steps=200),
    )
    worker = RolloutWorker(config, Workers(config).spec, ActorInfo("worker", 0, 0, 1, 1))
    rates = []
    for _ in range(7):
        worker.sample()
        rates.append(worker.exploring.rate)
    state = worker.get_state()
    again = RolloutWorker(config, Workers(config).spec, ActorInfo("worker", 0, 0, 1, 1))
    again.set_state(state)
    again.sample()
    worker.close()
    again.close()
    # steps that only reset an environment do not count
    assert rates == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.0, 0.0], abs=0.05)
    assert rates[-1] == 0.0
    assert again.exploring.rate == 0.0


@pytest.mark.parametrize(
    "algorithm", ["ppo", "a3c", "impala", "appo", "dqn", "apex", "sac", "maml"]
)
def test_a_schedule_over_a_run_ends_with_it(algorithm: str) -> None:
    """Whoever learns, and wherever: what is reported goes from the first value to the last."""
    small: dict[str, Any] = ALGORITHMS.get(algorithm, {})
    if algorithm == "sac":
        small = ALGORITHMS["dqn"] | {"env": "Pendulum-v1", "batches_per_draw": 1}
    if algorithm == "maml":
        small = {"env": "PointGoal", "inner_adaptation_steps": 1, "maml_optimizer_steps": 1}
    rate = Linear(1e-3, 1e-4)
    trained = rf.train(
        algorithm, until={"steps": 2000}, engine="sim", lr=rate, num_workers=2, **small
    )
    rates = [row["lr"] for row in trained.history if "lr" in row]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 6e-4
    assert 1e-4 <= rates[-1] < (3.5e-4 if algorithm != "maml" else 5e-4)  # its rounds are long


def test_steps_of_several_agents_are_those_of_their_environment() -> None:
    """A schedule over the run lasts as long for a policy of two agents as for one of one."""
    for policies in ("each", "shared"):
        trained = rf.train(
            "ppo",
            "MultiAgentCartPole",
            policies=policies,
            until={"steps": 2000},
            engine="sim",
            lr=Linear(1e-3, 0.0),
            num_envs_per_worker=4,
            rollout_fragment_length=16,
            train_batch_size=128,
        )
        last = {k: v for row in trained.history for k, v in row.items() if k.endswith("/lr")}
        assert all(rate < 3e-4 for rate in last.values()), last
        assert last


@pytest.mark.proc
def test_a_learner_in_a_process_follows_too() -> None:
    trained = rf.train(
        "impala",
        "CartPole-v1",
        until={"steps": 4000},
        num_workers=1,
        num_envs_per_worker=8,
        learner_placement="process",
        lr=Linear(1e-3, 0.0),
    )
    rates = [row["lr"] for row in trained.history]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 0.9e-3 > rates[-1]


@pytest.mark.parametrize("algorithm", ["ppo", "a3c", "impala", "appo", "dqn"])
def test_a_resumed_run_is_the_run_that_was_not_interrupted(algorithm: str, tmp_path: Path) -> None:
    """Bit for bit with everything on: statistics, scales, schedules, stops."""
    module = get_algorithm(algorithm)
    more: dict[str, Any] = {"normalize_observations": True, "lr": Linear(2e-3, 0.0)}
    if algorithm != "a3c":
        more["scale_rewards"] = True
    if algorithm == "ppo":
        more |= {"target_kl": 1e-3, "vf_clip_param": rf.Piecewise((0, 0.3), (1, 0.1))}
    if algorithm == "dqn":
        more["epsilon"] = Linear(1.0, 0.1)
    config = module.Config.make(**{**ALGORITHMS[algorithm], **more, "grad_clip_value": 0.1})
    work = Job(algorithm, module, config, {"steps": 2000}, seed=3, engine="sim")
    whole, parts = (directory_of(work, tmp_path, name) for name in ("whole", "parts"))
    expected = begin(work, whole)
    with pytest.raises(Died):
        begin(work, parts, stop=dies_at(1000))
    assert parts.about["config"]["lr"] == "0.002:0.0"
    found = go_on(parts, 2000)
    assert figures(parts) == figures(whole)
    assert same_weights(found, expected)


# -- a target KL ----------------------------------------------------------------------------------


@both
def test_passes_end_when_the_policy_has_moved_too_far(framework: str) -> None:
    """The minibatch that says so is not learned from, nor is any after it."""
    same: dict[str, Any] = {"lr": 0.05, "normalize_observations": False}
    free = learner_for(ppo, framework, **same)
    held = learner_for(ppo, framework, **same, target_kl=1e-3)
    batch = fragment(0, 16, 16)
    start = held.m.policy.evaluate(*_given(held, batch))[0]
    batch = batch.with_columns(logp=np.asarray(getattr(start, "detach", lambda: start)()))
    assert "kl_stops" not in free.train(batch, 10, 64).stats
    first = held.train(batch, 10, 64).stats
    assert free.updates == 40
    assert 1 <= held.updates < 10
    assert first["kl_stops"] == 1.0
    by_hand = learner_for(ppo, framework, **same)
    drawn = by_hand.rng
    rows = by_hand.rows(batch)
    from rillflow.learning.rows import orders

    order = (chosen for _ in range(10) for chosen in orders(rows, 64, drawn))
    for _ in range(held.updates):
        by_hand.learn_from(by_hand.spread(rows), next(order))
    for name, array in held.get_weights().items():
        np.testing.assert_allclose(array, by_hand.get_weights()[name], atol=1e-6)
    assert held.train(fragment(1, 16, 16), 10, 64).stats["kl_stops"] == 2.0


def _given(learner: Any, batch: Any) -> tuple[Any, Any]:
    pair = batch["obs"], batch["actions"]
    return pair if not hasattr(learner, "device") else tuple(map(torch.tensor, pair))  # type: ignore[return-value]


def test_a_target_kl_needs_the_figure() -> None:
    def silent(m: Any, rows: Any, cfg: Any) -> Any:
        for step in ppo.update(m, rows, cfg):
            yield Step(step.loss)

    learner = learner_for(ppo, "numpy", target_kl=0.01, update=silent)
    with pytest.raises(rf.RunError, match="by the figure `kl` of each Step"):
        learner.train(fragment())
    for name in ("target_kl", "vf_clip_param", "grad_clip_value"):
        with pytest.raises(rf.BuildError, match=f"{name} must be above 0, or None, got 0"):
            ppo.Config(**{name: 0.0})


# -- what is cut -----------------------------------------------------------------------------------


@both
def test_values_move_no_further_than_they_may(framework: str) -> None:
    """With a tiny bound the value loss is that of values before learning, wherever they go."""
    learner = learner_for(ppo, framework, vf_clip_param=1e-3, lr=0.01, num_sgd_iter=1)
    before = learner.rows(fragment())
    assert np.allclose(before["values_before"], np.asarray(_values(learner, before)), atol=1e-6)
    learner.train(fragment(), 5)
    free = learner_for(ppo, framework, lr=0.01)
    assert "values_before" not in free.rows(fragment())
    free.train(fragment(), 5)
    moved = [np.abs(np.asarray(_values(one, before)) - np.asarray(before["values_before"])).mean()
             for one in (learner, free)]  # fmt: skip
    assert moved[0] < moved[1]


def _values(learner: Any, rows: Any) -> Any:
    values = learner.m.frozen.policy.values(rows["obs"])
    return values.detach() if isinstance(values, torch.Tensor) else values


def test_clipped_value_loss_by_hand() -> None:
    """From 0 to 2 with a bound of 1: the worse of (2 - 3)^2 and (1 - 3)^2, whose slope is 0."""
    v, old, target = (np.array([x], np.float32) for x in (2, 0, 3))
    assert losses.clipped_value_loss(v, old, target, 1.0) == pytest.approx(2.0)
    tensor = torch.tensor([2.0], requires_grad=True)
    loss = losses.clipped_value_loss(tensor, torch.tensor([0.0]), torch.tensor([3.0]), 1.0)
    loss.backward()
    assert loss.item() == pytest.approx(2.0)
    assert tensor.grad is not None
    assert tensor.grad.item() == 0.0


@both
def test_gradients_are_cut_number_by_number(framework: str) -> None:
    """A first step without a norm to keep goes on as if each number were within the bounds."""
    cut = learner_for(a2c, framework, grad_clip_value=1e-4, grad_clip=None)
    free = learner_for(a2c, framework, grad_clip=None)
    gradients = free.compute_gradients(fragment())
    assert max(np.abs(array).max() for array in gradients.values.values()) > 1e-3
    values = {name: np.clip(array, -1e-4, 1e-4) for name, array in gradients.values.items()}
    free.apply_gradients(rf_gradients(values))
    cut.train(fragment())
    for name, array in free.get_weights().items():
        np.testing.assert_allclose(cut.get_weights()[name], array, atol=1e-6)
    both_ways = learner_for(a2c, framework, grad_clip_value=1e-4, grad_clip=1e-5)
    both_ways.apply_gradients(gradients)
    moments = both_ways.optimiser_state("policy")
    size = np.sqrt(sum((slots["exp_avg"] ** 2).sum() for slots in moments.values()))
    assert size == pytest.approx(0.1 * 1e-5, rel=0.2)  # of Adam's first average, a tenth


@both
def test_a_gradient_that_is_not_finite_is_still_left_out(framework: str) -> None:
    learner = learner_for(a2c, framework, grad_clip_value=0.1)
    before = {name: array.copy() for name, array in learner.get_weights().items()}
    bad = fragment().with_columns(rewards=np.full((8, 5), np.nan, np.float32))
    with pytest.warns(UserWarning, match="not finite"):
        learner.train(bad)
    assert all(np.array_equal(learner.get_weights()[n], array) for n, array in before.items())


def rf_gradients(values: Any) -> Any:
    from rillflow.learning.results import Gradients

    return Gradients(values, 40, {})


# -- nothing where nothing is wanted ---------------------------------------------------------------


def test_batches_and_weights_are_as_they_were_where_nothing_is_on() -> None:
    config = impala.Config(num_workers=0, num_envs_per_worker=2, rollout_fragment_length=4)
    workers = Workers(config)
    (batch,) = ParallelRollouts(workers, mode="async").take(1, engine="sim")
    assert "running_return" not in batch
    learner = make_learner(workers.spec, config, 0)
    assert type(learner.get_weights()).__name__ == "NamedVector"
    assert learner.cfg is config
    assert learner.scaled(batch) is batch
    assert replayed(0).keys() == learner.scaled(replayed(0)).keys()


def test_importance_weights_follow_a_schedule_shard_by_shard() -> None:
    """Each of two shards keeps half of the rows, so its way is half as long."""
    falls = rf.Piecewise((0, 0.2), (0.5, 0.6), (1, 1.0), steps=400)
    config = dqn.Config(
        prioritized_replay=True, prioritized_replay_beta=falls, num_replay_buffer_shards=2
    )
    actor = ReplayActor(**config.replay_options, info=ActorInfo("replay", 0, 0, seed=0))
    found = []
    for seed in range(5):
        found.append(actor.beta)
        actor.add(fragment(seed, 10, 5))  # fifty rows
    assert found == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    whole = dataclasses.replace(config, memory="gru", rollout_fragment_length=20)
    assert whole.replay_options["beta"].steps == 10  # sequences, of 400 steps in two shards


def test_a_schedule_of_importance_weights_can_last_as_long_as_the_run() -> None:
    """Replay is told how long that is: without, to ask for a weight is an error."""
    run = rf.train(
        "dqn", "CartPole-v1", until={"steps": 1500}, engine="sim", seed=0, num_workers=0,
        prioritized_replay=True, prioritized_replay_beta=rf.Linear(0.4, 1.0),
    )  # fmt: skip
    assert run.history[-1]["steps"] >= 1500
    with pytest.raises(rf.BuildError, match="prioritized_replay_beta must be between 0 and 1"):
        dqn.Config(prioritized_replay_beta=rf.Linear(0.4, 1.2, steps=10))
