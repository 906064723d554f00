"""APPO: its loss by hand, its target, batches used again and accounted for, every setting read."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import appo, impala
from rillflow.experience.batch import STATE, SampleBatch
from rillflow.learning.make_learner import framework_and_reason
from rillflow.learning.numpy_learner import NumpyLearner
from rillflow.learning.torch_learner import TorchLearner
from rillflow.learning.update import Rows, Step
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.weights import UpdateWorkerWeights, published_of
from rillflow.rl.workers import Workers
from rillflow.runs.train import Trained, train
from tests.algorithms.test_impala import SMALL, TREE, Table, figures, rows
from tests.engines.processes import children, gone
from tests.rl.test_learner import fragment


def short(engine: str = "sim", seed: int = 3, steps: int = 1500, **settings: Any) -> Trained:
    values = {"env": "CartPole-v1", **SMALL, **settings}
    return train("appo", until={"steps": steps}, seed=seed, engine=engine, **values)


# -- the loss --------------------------------------------------------------------------------------


class Aim:
    """A target network that gives each action a probability it was told."""

    def __init__(self, ratios: list[float]) -> None:
        self.logp = torch.tensor(np.log(ratios)).float()[:, None]

    def evaluate_rows(self, rows: Any) -> tuple[Any, ...]:
        return (self.logp,)


def step_of(batch: Any, target: list[float], recurrent: bool = False, **settings: Any) -> Step:
    """APPO's only step, with a target network of these probabilities; the worker's are all 1."""
    cfg = appo.Config(**{"gamma": 0.5, "vf_loss_coef": 1.0, "entropy_coef": 0.0, **settings})
    targets = SimpleNamespace(policy=Aim(target))
    m = SimpleNamespace(policy=Table(recurrent), target=targets, at_target=lambda name: False)
    (step,) = appo.update(m, Rows(batch), cfg)
    return step


def test_loss_by_hand() -> None:
    """Two steps, with the target network's probabilities 0.5 and 2 times the worker's.

    V-trace clips the second at 1: the targets are 1 + 0.5 * 8 = 5, and, with half of the first
    error, 2 + 0.5 * (1 + 0.5 * 5 - 2) = 2.75. Advantages are 0.5 * (1 + 0.5 * 5 - 2) = 0.75 and 3.
    The policy's ratios to the target are 1 / 0.5 = 2, clipped to 1.4, and 1.5 / 2 = 0.75.
    """
    step = step_of(rows([2.0, 2.0], [1.0, 1.5], after=8.0), [0.5, 2.0], clip_param=0.4)
    assert float(step.stats["value_loss"]) == pytest.approx((0.75**2 + 3.0**2) / 4)
    assert float(step.stats["policy_loss"]) == pytest.approx(-(1.4 * 0.75 + 0.75 * 3.0) / 2)
    assert float(step.stats["clip_fraction"]) == 0.5
    total = (0.75**2 + 9.0) / 4 - (1.4 * 0.75 + 0.75 * 3.0) / 2
    assert float(step.loss) == pytest.approx(total)


@pytest.mark.parametrize(("limit", "ratio"), [(2.0, 2.0), (3.0, 3.0), (8.0, 4.0)])
def test_an_action_that_was_far_likelier_to_its_worker(limit: float, ratio: float) -> None:
    """`worker_clip` bounds pi_worker / pi_target: 4 here, so that r = min(4, limit) * 1."""
    step = step_of(rows([2.0], [1.0], after=8.0), [0.25], clip_param=9.0, worker_clip=limit)
    advantage = 0.25 * (1.0 + 0.5 * 8.0 - 2.0)
    assert float(step.stats["policy_loss"]) == pytest.approx(-ratio * advantage)


def test_the_ratios_of_vtrace_are_the_targets() -> None:
    """What the network itself thinks of an action by now is in no value target."""
    losses = [
        float(step_of(rows([2.0, 2.0], [now, now], after=8.0), [0.5, 0.5]).stats["value_loss"])
        for now in (0.1, 1.0, 9.0)
    ]
    assert losses[0] == losses[1] == losses[2]


def test_nothing_follows_a_termination() -> None:
    """The first episode ends with its step: its target is the reward, 1; the second's 1 + 4."""
    batch = rows([2.0, 2.0], [1.0, 1.0], after=8.0, terminated=[True, False])
    step = step_of(batch, [1.0, 1.0])
    assert float(step.stats["value_loss"]) == pytest.approx((1.0 + 9.0) / 4)


@pytest.mark.parametrize("recurrent", [False, True])
def test_what_is_no_step_is_in_no_trace_and_in_no_mean(recurrent: bool) -> None:
    """Steps that only reset, and the observation behind the fragment: targets are 4 and 5."""
    batch = rows(
        [2.0, 6.0, 2.0], [1.0, 9.0, 1.0], after=8.0,
        truncated=[True, False, False], valid=[True, False, True], starts=[False, False, True],
    )  # fmt: skip
    batch[STATE] = torch.zeros(1, 1)
    step = step_of(batch, [1.0, 7.0, 1.0], recurrent)
    assert float(step.stats["value_loss"]) == pytest.approx((2.0**2 + 3.0**2) / 4)
    assert float(step.stats["policy_loss"]) == pytest.approx(-(2.0 + 3.0) / 2)
    assert float(step.stats["kl"]) == float(step.stats["clip_fraction"]) == 0.0


def learner(kind: Any = NumpyLearner, module: Any = appo, **settings: Any) -> Any:
    workers = Workers(module.Config(**settings))
    return kind(workers.spec, workers.config, 5)


@pytest.mark.parametrize("kind", [NumpyLearner, TorchLearner])
def test_on_policy_its_gradient_is_impalas(kind: Any) -> None:
    """Where worker, target and network agree, the surrogate's slope is the policy gradient."""
    ours, theirs = learner(kind), learner(kind, impala)
    batch = fragment(0, 16, 20)
    policy = learner(NumpyLearner).m.policy
    batch = batch.with_columns(logp=policy.evaluate(batch["obs"], batch["actions"])[0])
    gradients = [one.compute_gradients(batch).values for one in (ours, theirs)]
    for name, value in gradients[1].items():
        np.testing.assert_allclose(gradients[0][name], value, atol=1e-6, err_msg=name)


def test_the_target_holds_still_between_its_updates() -> None:
    """So many rows trained, every use of a batch counted; then it is the network."""
    one = learner(target_network_update_freq=600)
    first = {name: np.array(value) for name, value in one.get_target_weights().items()}
    batch = fragment(0, 16, 20)  # 320 rows
    one.train(batch)
    assert all(np.array_equal(first[n], w) for n, w in one.get_target_weights().items())
    one.train(batch)
    assert all(np.array_equal(one.get_weights()[n], w) for n, w in one.get_target_weights().items())


@pytest.mark.parametrize("kind", [NumpyLearner, TorchLearner])
def test_a_target_that_is_the_network_is_not_asked(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just renewed it says what the network says: of a batch's first pass that is known already.

    Rows in two passes over a batch, and minibatches, are the target's as soon as the network moved.
    """
    # where updates are recorded they go one way
    one = learner(kind, target_network_update_freq=640, record_updates=False)
    asked: list[bool] = []
    passed = one.m.targets["policy"].evaluate_rows

    def evaluate(rows: Any) -> Any:
        asked.append(True)
        return passed(rows)

    monkeypatch.setattr(one.m.targets["policy"], "evaluate_rows", evaluate)
    counts = []
    for _ in range(4):  # 320 rows each: renewed after the second, and after the fourth
        one.train(fragment(0, 16, 20))
        counts.append(len(asked))
    assert counts == [0, 1, 1, 2]
    one.train(fragment(0, 16, 20), epochs=3)
    assert len(asked) == 4
    one.set_state(one.get_state())
    one.train(fragment(0, 16, 20))
    assert len(asked) == 5


@pytest.mark.parametrize("kind", [NumpyLearner, TorchLearner])
def test_a_run_is_the_same_where_the_target_is_always_asked(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to ask it leaves out work, and nothing else."""
    learned = []
    for asks in (False, True):
        one = learner(kind, target_network_update_freq=640, record_updates=False)
        if asks:
            monkeypatch.setattr(one.m, "at_target", lambda name: False)
        for seed in range(5):
            one.train(fragment(seed, 16, 20))
        learned.append(one.get_weights())
    for name, value in learned[0].items():
        np.testing.assert_allclose(learned[1][name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", [NumpyLearner, TorchLearner])
def test_statistics_of_observations_tell_a_network_from_its_target(kind: Any) -> None:
    """Weights that are equal give something else where observations are scaled otherwise."""
    one = learner(kind, normalize_observations=True, record_updates=False)
    assert one.m.at_target("policy")
    one.observations.count([fragment(0, 16, 20)])
    assert not one.m.at_target("policy")
    one.update_target()
    assert one.m.at_target("policy")


def test_two_devices_learn_what_one_learns() -> None:
    """Fragments are parted by environments, with the target network's share of each."""
    workers = Workers(appo.Config(framework="torch"))
    one, two = (TorchLearner(workers.spec, workers.config, 0, ("cpu",) * n) for n in (1, 2))
    for seed in range(3):
        batch = fragment(seed, 16, 20)
        for each in (one, two):
            each.train(batch)
    for name, value in one.get_weights().items():
        np.testing.assert_allclose(two.get_weights()[name], value, atol=1e-5, err_msg=name)


def test_numpy_learns_it() -> None:
    workers = Workers(appo.Config())
    assert framework_and_reason(workers.spec, workers.config)[0] == "numpy"


# -- batches that are used again -------------------------------------------------------------------


class Seen:
    """An update that counts how often it has seen each batch."""

    times: ClassVar[Counter[bytes]] = Counter()

    def __call__(self, m: Any, rows: Rows, cfg: Any) -> Any:
        if rows["rewards"].size >= 60:  # not the few rows that it is tried with
            self.times[rows["obs"].tobytes()] += 1
        yield from appo.update(m, rows, cfg)


@pytest.mark.parametrize(("uses", "between"), [(1, 0), (2, 0), (2, 3), (3, 2)])
def test_no_batch_is_dropped_before_its_last_use(uses: int, between: int) -> None:
    """All but the newest have been learned from as often as the settings say; the ledger knows."""
    Seen.times.clear()
    settings = {**SMALL, "batch_uses": uses, "newer_batches_between": between}
    workers = Workers(appo.Config.make(**settings, update=Seen()))
    with appo.plan(ParallelRollouts(workers), workers).run("sim", seed=2) as run:
        for _ in range(60):
            next(run)
            assert run.ledger().balanced
        ledger = run.ledger()
    counts = list(Seen.times.values())
    newest = 1 + (uses - 1) * max(1, between)
    assert set(counts[: -newest or None]) == {uses}
    assert max(counts) == uses
    (line,) = ledger.balances()
    assert line.dropped == {}
    assert line.done["trained"] * 40 <= 60 * 80 / uses


def test_a_batch_that_comes_again_tells_of_its_own_workers() -> None:
    """Its provenance is that of its fragments, not of those that came meanwhile."""
    workers = Workers(appo.Config.make(**SMALL, num_workers=3, newer_batches_between=4))
    flow = appo.plan(ParallelRollouts(workers), workers)
    told = flow.for_each(lambda result, ctx: frozenset(map(str, ctx.provenance)))
    with told.run("sim", seed=1) as run:
        times = Counter(itertools.islice(run, 60))
    assert set(list(times.values())[:-5]) == {2}


def test_schedules_know_how_often_batches_are_used() -> None:
    assert appo.Config(batch_uses=4).steps_behind(1000) == 250


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"batch_uses": 0}, "batch_uses must be at least 1, got 0"),
        ({"newer_batches_between": -1}, "newer_batches_between must be at least 0, got -1"),
        ({"batch_uses": 1, "newer_batches_between": 2}, "is for batches that are used again"),
        ({"target_network_update_freq": 0}, "target_network_update_freq must be at least 1"),
        ({"clip_param": 0.0}, "clip_param must be above 0, got 0.0"),
        ({"worker_clip": 0.5}, "worker_clip must be at least 1, got 0.5"),
        ({"vtrace_lambda": 1.5}, "vtrace_lambda must be between 0 and 1, got 1.5"),
        ({"num_aggregation_workers": 3}, "from 0 to num_workers=2, got 3"),
        ({"lambda_": 0.9}, "unknown setting 'lambda_'"),
        ({"use_gae": True}, "unknown setting 'use_gae'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(rf.BuildError, match=told):
        appo.Config.make(**settings)


@pytest.mark.parametrize(
    "changed",
    [
        {"batch_uses": 3},
        {"newer_batches_between": 2},
        {"target_network_update_freq": 512},
        {"clip_param": 0.01},
        {"worker_clip": 1.0},
        {"vtrace_clip_rho_threshold": 0.5},
        {"vtrace_clip_pg_rho_threshold": 0.5},
        {"vtrace_lambda": 0.5},
        {"sgd_minibatch_size": 20},
        {"standardize_advantages": True},
        {"vf_loss_coef": 1.0},
        {"entropy_coef": 0.1},
        {"train_batch_size": 120},
        {"max_sample_requests_in_flight_per_worker": 1},
        {"learner_queue_size": 4},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_every_setting_is_read(changed: dict[str, Any]) -> None:
    """Each changes what is learned."""
    base: dict[str, Any] = {"lr": 1e-2, "clip_param": 0.2}
    assert figures(short(**base))[1] != figures(short(**{**base, **changed}))[1]


# -- runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, TREE], ids=["plain", "tree"])
def test_same_seed_same_run(settings: dict[str, Any]) -> None:
    """On sim, bit for bit; another seed gives another one."""
    first = figures(short(**settings))
    assert first == figures(short(**settings))
    assert first != figures(short(seed=4, **settings))


def test_no_workers_equals_one_worker() -> None:
    assert figures(short(num_workers=0)) == figures(short(num_workers=1))


class Answers(UpdateWorkerWeights):
    """Remembers what each worker acted with, and what it was answered with."""

    told: ClassVar[list[tuple[str, int, int]]] = []

    def __call__(self, item: Any, ctx: Any) -> Any:
        (source,) = ctx.provenance
        (acted,) = source.versions.values()
        self.told.append((source.actor, acted, published_of(self.workers, ctx).version))
        return super().__call__(item, ctx)


def test_every_worker_is_answered_with_the_newest_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow it is: its next fragment but one was made with what was newest at its answer.

    Weights for whoever happens to answer in the step of the learner would leave others far behind.
    """
    monkeypatch.setattr(appo, "UpdateWorkerWeights", Answers)
    Answers.told.clear()
    workers = Workers(appo.Config.make(**SMALL, num_workers=12))
    flow = appo.plan(ParallelRollouts(workers), workers)
    with flow.run(rf.Sim(latency=lambda rng: 10 ** rng.uniform(-2, 0)), seed=4) as run:
        for _ in range(200):
            next(run)
    for name in {name for name, _, _ in Answers.told}:
        own = [(acted, newest) for actor, acted, newest in Answers.told if actor == name]
        assert len(own) > 4
        for (_, newest), (acted, _) in zip(own, own[2:], strict=False):
            assert acted >= newest


@pytest.mark.proc
@pytest.mark.parametrize("settings", [{}, TREE], ids=["plain", "tree"])
def test_on_processes(settings: dict[str, Any]) -> None:
    """Everything is accounted for, and nothing is left."""
    before = children()
    workers = Workers(appo.Config.make(**SMALL, **settings))
    with appo.plan(ParallelRollouts(workers), workers).run("local") as run:
        results = [next(run) for _ in range(30)]
        assert run.ledger().balanced
        assert run.shared[workers.weights_key].version == 30
    assert all(result.steps >= 60 for result in results)
    assert gone(list(children() - before))


@pytest.mark.ray
@pytest.mark.proc
@pytest.mark.usefixtures("users_ray")
def test_a_tree_on_ray() -> None:
    """Two workers behind an aggregator, and a learner."""
    workers = Workers(appo.Config.make(**SMALL, num_workers=2, num_aggregation_workers=1))
    with appo.plan(ParallelRollouts(workers), workers).run("ray") as run:
        results = [next(run) for _ in range(6)]
        assert run.ledger().balanced
    assert all(result.steps >= 60 for result in results)


def test_continuous_actions_and_masks_and_memory() -> None:
    """It trains all three, to weights that are finite."""
    for env, more in (
        ("Pendulum-v1", {}),
        ("tests.masked:Gate", {}),
        ("CartPole-hidden-velocity", {"memory": "lstm", "memory_size": 8}),
    ):
        settings = {**SMALL, **more}
        trained = train("appo", env, until={"steps": 600}, seed=1, engine="sim", **settings)
        assert all(np.isfinite(weight).all() for weight in trained.weights.values()), env


def test_a_batch_of_nothing_but_resets_teaches_nothing() -> None:
    empty = SampleBatch(fragment(0, 1, 2)).with_columns(valid=np.zeros((1, 2), bool))
    gradients = learner().compute_gradients(empty)
    assert gradients.steps == 0
    assert all((value == 0).all() for value in gradients.values.values())
