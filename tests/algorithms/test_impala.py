"""IMPALA: its loss by hand, the same run from the same seed, a tree of aggregators; it learns."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import impala
from rillflow.experience.batch import BOOTSTRAP, STATE
from rillflow.learning.make_learner import make_learner
from rillflow.learning.torch_modules import Policy
from rillflow.learning.update import Rows, Step
from rillflow.rl.learner_thread import LearnerThread
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers, create_rollout_workers
from rillflow.runs.train import Trained, train
from rillflow.types import ActorInfo
from tests.engines.processes import children, gone

SMALL: dict[str, Any] = {
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 10,
    "train_batch_size": 60,
    "hidden": (16,),
}
MEMORY: dict[str, Any] = {"env": "CartPole-hidden-velocity", "model": "lstm", "lstm_size": 8}
TREE: dict[str, Any] = {"num_workers": 3, "num_aggregation_workers": 2}


def short(engine: str = "sim", seed: int = 3, steps: int = 1500, **settings: Any) -> Trained:
    values = {"env": "CartPole-v1", **SMALL, **settings}
    return train("impala", until={"steps": steps}, seed=seed, engine=engine, **values)


def figures(trained: Trained) -> tuple[str, dict[str, bytes]]:
    """All that a run reported but the clock, and the weights it ended with."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in trained.history]
    return str(rows), {name: value.tobytes() for name, value in trained.weights.items()}


# -- the loss --------------------------------------------------------------------------------------


class Table(Policy):
    """A policy that gives what it was told: log-probabilities and values are the observation's."""

    def __init__(self, recurrent: bool = False) -> None:
        self.spec: Any = SimpleNamespace(recurrent=recurrent)

    def evaluate(self, obs: Any, actions: Any) -> Any:
        return obs[..., 1], torch.ones_like(obs[..., 0]), obs[..., 0]

    def evaluate_recurrent(self, obs: Any, actions: Any, state: Any, starts: Any) -> Any:
        return (*self.evaluate(obs, actions), state)


def rows(values: list[float], ratios: list[float], after: float, **flags: list[bool]) -> Any:
    """A fragment of one environment with these values and ratios of probabilities, rewards 1."""
    time = len(values)
    no = [False] * time
    columns: dict[str, torch.Tensor] = {
        "obs": torch.tensor(list(zip(values, np.log(ratios), strict=True))).float()[:, None],
        BOOTSTRAP: torch.tensor([[after, 0.0]]),
        "actions": torch.zeros(time, 1),
        "logp": torch.zeros(time, 1),
        "rewards": torch.ones(time, 1),
    }
    flags = {"terminated": no, "truncated": no, **flags}
    return columns | {name: torch.tensor(flag)[:, None] for name, flag in flags.items()}


CFG = impala.Config(gamma=0.5, vf_loss_coef=1.0, entropy_coef=0.0)


def step_of(policy: Table, batch: Any, **settings: Any) -> Step:
    """IMPALA's only step."""
    cfg = dataclasses.replace(CFG, **settings)
    (step,) = impala.update(SimpleNamespace(policy=policy), Rows(batch), cfg)
    return step


def test_loss_by_hand() -> None:
    """Two steps; the ratio of the second is 2, which is clipped to 1.

    Targets: the last is 1 + 0.5 * 8 = 5, the first 1 + 0.5 * 5 = 3.5. Advantages are the targets
    less the values, 1.5 and 3; the log-probabilities are 0 and log 2.
    """
    step = step_of(Table(), rows([2.0, 2.0], [1.0, 2.0], after=8.0))
    assert float(step.stats["value_loss"]) == pytest.approx((1.5**2 + 3.0**2) / 4)
    assert float(step.stats["policy_loss"]) == pytest.approx(-np.log(2.0) * 3.0 / 2)
    assert float(step.loss) == pytest.approx(11.25 / 4 - np.log(2.0) * 1.5)


def test_small_ratios_shorten_the_trace() -> None:
    """The second step has ratio 0.5: half its error counts, in its own target and the first one's.

    Targets: 2 + 0.5 * (5 - 2) = 3.5, and 1 + 0.5 * 3.5 = 2.75.
    """
    step = step_of(Table(), rows([2.0, 2.0], [1.0, 0.5], after=8.0))
    assert float(step.stats["value_loss"]) == pytest.approx((0.75**2 + 1.5**2) / 4)
    # the advantage of the second step is weighted with 0.5 too: 0.5 * (5 - 2)
    assert float(step.stats["policy_loss"]) == pytest.approx(-np.log(0.5) * 1.5 / 2)


def test_a_lambda_looks_less_far_ahead() -> None:
    """On-policy, with a half: of the error of the second step, 3, a quarter reaches the first."""
    step = step_of(Table(), rows([2.0, 2.0], [1.0, 1.0], after=8.0), vtrace_lambda=0.5)
    assert float(step.stats["value_loss"]) == pytest.approx((0.75**2 + 3.0**2) / 4)


def test_advantages_may_be_standardized() -> None:
    """1.5 and 3 become -0.7071 and 0.7071; targets of values stay what they are."""
    batch = rows([2.0, 2.0], [1.0, 2.0], after=8.0)
    step = step_of(Table(), batch, standardize_advantages=True)
    assert float(step.stats["policy_loss"]) == pytest.approx(-np.log(2.0) * np.sqrt(0.5) / 2)
    assert float(step.stats["value_loss"]) == pytest.approx((1.5**2 + 3.0**2) / 4)


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_a_batch_may_be_several_steps_of_whole_trajectories(framework: str) -> None:
    """Of 4 environments and 10 steps each, 20 rows are 2 environments: two steps to a batch."""
    made = []
    for rows_each in (None, 20):
        settings = {**SMALL, "framework": framework, "sgd_minibatch_size": rows_each}
        config = impala.Config(num_workers=0, **settings)
        spec = Workers(config).spec
        batch = RolloutWorker(config, spec, ActorInfo("worker-0", 0, 0, seed=1)).sample()
        learner = make_learner(spec, config, 0)
        learner.learn(batch)
        made.append(learner.updates)
    assert made == [1, 2]


def test_nothing_follows_a_termination() -> None:
    """The first episode ends with its step: its target is the reward, 1; the second's 1 + 4."""
    batch = rows([2.0, 2.0], [1.0, 1.0], after=8.0, terminated=[True, False])
    step = step_of(Table(), batch)
    assert float(step.stats["value_loss"]) == pytest.approx((1.0 + 9.0) / 4)


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_cut_episode_goes_on_with_the_value_of_its_final_observation(recurrent: bool) -> None:
    """Both ways to begin the next episode say the same: targets 1 + 0.5 * 6 = 4, and 1 + 4 = 5."""
    resets = rows(
        [2.0, 6.0, 2.0], [1.0, 9.0, 1.0], after=8.0,
        truncated=[True, False, False], valid=[True, False, True], starts=[False, False, True],
    )  # fmt: skip
    at_once = rows([2.0, 2.0], [1.0, 1.0], after=8.0, truncated=[True, False], starts=[False, True])
    at_once["next_obs"] = torch.tensor([[[6.0, 0.0]], [[8.0, 0.0]]])
    for batch in (resets, at_once):
        batch[STATE] = torch.zeros(1, 1)
        step = step_of(Table(recurrent), batch)
        assert float(step.stats["value_loss"]) == pytest.approx((2.0**2 + 3.0**2) / 4)
        assert float(step.stats["entropy"]) == 1.0


@pytest.mark.parametrize("model", ["mlp", "lstm"])
def test_the_value_of_a_reward_for_ever(model: str) -> None:
    """Cut after 10 steps, but not ended: the value is 1 / (1 - gamma), with memory and without.

    Whoever took the cut for an end would find 3.8 on average.
    """
    cfg = impala.Config.make(
        env="ConstantReward", gamma=0.8, lr=2e-2, model=model, hidden=(8,),
        num_envs_per_worker=2, rollout_fragment_length=7, train_batch_size=28,
        **({"lstm_size": 8} if model == "lstm" else {}),
    )  # fmt: skip
    workers = Workers(cfg)
    with impala.plan(ParallelRollouts(workers), workers).run("sim") as run:
        results = [next(run) for _ in range(120)]
        weights = run.shared[workers.weights_key].weights
    assert results[-1].stats["value_loss"] < 0.1
    worker = RolloutWorker(workers.config, workers.spec, ActorInfo("worker", 0, 0, seed=0))
    worker.set_weights(weights)
    policy = Policy(workers.spec)
    policy.set_weights(weights)
    batch = {name: torch.from_numpy(column) for name, column in worker.sample().items()}
    with torch.no_grad():
        _, _, values, _ = policy.evaluate_fragments(batch)
    assert float(values.mean()) == pytest.approx(5.0, abs=0.4)


# -- runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, MEMORY, TREE], ids=["plain", "memory", "tree"])
def test_same_seed_same_run(settings: dict[str, Any]) -> None:
    """On sim, bit for bit; another seed gives another one."""
    first = figures(short(**settings))
    assert first == figures(short(**settings))
    assert first != figures(short(seed=4, **settings))


def test_no_workers_equals_one_worker() -> None:
    """`num_workers=0` is one actor in the driver."""
    assert figures(short(num_workers=0)) == figures(short(num_workers=1))


@pytest.mark.proc
def test_on_processes() -> None:
    """Workers go on while the learner learns; everything is accounted for, nothing is left."""
    before = children()
    workers = Workers(impala.Config.make(**SMALL))
    with impala.plan(ParallelRollouts(workers), workers).run("local") as run:
        for _ in range(30):
            result = next(run)
        assert run.ledger().balanced
        assert run.shared[workers.weights_key].version == 30
    assert result.steps >= 60
    assert gone(list(children() - before))


def test_the_plan_is_drawn_without_starting() -> None:
    """Fragments are answered, joined and queued; results are published."""
    workers = Workers(impala.Config.make(num_workers=64))
    text = impala.plan(ParallelRollouts(workers), workers).explain()
    for part in ("64 \u00d7 worker", "UpdateWorkerWeights", "ConcatBatches", "TrainOneStep"):
        assert part in text


# -- aggregation -----------------------------------------------------------------------------------


def test_aggregators_share_the_workers() -> None:
    """As evenly as can be; the plan sees the aggregators only."""
    workers = create_rollout_workers(impala.Config(num_workers=5, num_aggregation_workers=2))
    assert repr(workers) == "<5 rollout workers on 'CartPole-v1' behind 2 aggregators>"
    shares = [workers.actors.arguments(i)[0] for i in range(2)]
    assert [len(share.actors) for share in shares] == [3, 2]
    assert "2 \u00d7 aggregator" in impala.plan(ParallelRollouts(workers), workers).explain()


def test_more_aggregators_than_workers_are_refused() -> None:
    """The message says how many there can be."""
    with pytest.raises(rf.BuildError, match=r"from 0 to num_workers=2, got 3"):
        impala.Config.make(num_workers=2, num_aggregation_workers=3)


def test_aggregators_give_whole_batches_of_different_workers() -> None:
    """Joined already, with steps and episodes of all their workers, each with its own seed."""
    workers = Workers(impala.Config.make(**SMALL, num_workers=4, num_aggregation_workers=2))
    seen: list[dict[str, Any]] = []
    with ParallelRollouts(workers, mode="async").run("sim") as run:
        run.on_metrics(lambda actor, seq, metrics: seen.append(metrics))
        batches = [next(run) for _ in range(4)]
    assert all(batch.steps >= 60 for batch in batches)
    assert sum(metrics["steps"] for metrics in seen) >= sum(batch.steps for batch in batches)
    assert sum(len(metrics["episodes"]) for metrics in seen) > 0
    firsts = np.concatenate([batch["obs"][0] for batch in batches])
    assert len(np.unique(firsts, axis=0)) == len(firsts)


def test_aggregated_workers_get_the_newest_weights() -> None:
    """What comes back was made with weights that lag by a few versions at most."""
    trained = short(steps=3000, **TREE)
    assert max(row["kl"] for row in trained.history) < 0.05


@pytest.mark.proc
def test_aggregators_are_processes_with_processes_of_their_own() -> None:
    """Two aggregators, three workers, a learner; nothing is left behind when the run stops."""
    before = children()
    workers = Workers(impala.Config.make(**SMALL, **TREE))
    with impala.plan(ParallelRollouts(workers), workers).run("local") as run:
        results = [next(run) for _ in range(10)]
        ours = children() - before
        assert len(ours) == 6
        assert run.ledger().balanced
    assert all(result.steps >= 60 for result in results)
    assert gone(list(ours))


@pytest.mark.proc
@pytest.mark.parametrize("on_failure", ["restart", "raise"])
def test_a_learner_that_is_killed_comes_back_or_ends_the_run(on_failure: str) -> None:
    """From a snapshot, and with versions that were not there before, as its settings say."""
    settings = {**SMALL, "num_workers": 1, "learner_placement": "process"}
    workers = Workers(impala.Config.make(**settings, on_failure=on_failure))
    flow = impala.plan(ParallelRollouts(workers), workers)
    with flow.run("local", on_failure="restart") as run:
        next(run)
        os.kill(run.workers()["learner-0"]["pid"], signal.SIGKILL)
        if on_failure == "raise":
            with pytest.raises(rf.WorkerLost, match="'learner-0'"):
                list(itertools.islice(run, 20))
            return
        list(itertools.islice(run, 40))
        assert run.workers()["learner-0"]["incarnation"] == 1
        assert run.shared[workers.weights_key].version > 20
        assert run.ledger().balanced


@pytest.mark.parametrize(
    ("settings", "cores", "place"),
    [
        ({}, 2, "driver"),
        ({}, 3, "driver"),
        ({}, 4, "process"),
        ({"num_workers": 0}, 1, "driver"),
        ({"num_workers": 3}, 2, "process"),
        ({"framework": "torch"}, 2, "process"),
        ({"env": "CartPole-hidden-velocity", "model": "lstm"}, 2, "process"),
        ({"learner_placement": "thread"}, 2, "thread"),
        ({"env": "ALE/Pong-v5"}, 2, "thread"),
    ],
)
def test_the_learner_lives_where_it_fits(
    settings: dict[str, Any], cores: int, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the driver, unless that has time for what NumPy learns, and others no core for it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    cfg = impala.Config.make(**{"num_workers": 2, **settings})
    assert LearnerThread(Workers(cfg), cfg).actors.placement == place


@pytest.mark.proc
def test_a_learner_in_the_driver_learns_while_its_workers_sample() -> None:
    """The run is as with a learner of its own: results in order, a ledger that balances."""
    before = children()
    workers = Workers(impala.Config.make(**SMALL, num_workers=2, learner_placement="driver"))
    with impala.plan(ParallelRollouts(workers), workers).run("local") as run:
        versions = []
        for _ in range(50):
            next(run)
            versions.append(run.shared[workers.weights_key].version)
        assert len(children() - before) == 2
        assert versions == list(range(1, 51))
        assert run.ledger().balanced
        shares = {line.name: line.share for line in run.stats().times if line.where == "driver"}
        assert shares["background(learner)"] > 0


@pytest.mark.proc
def test_workers_end_with_an_aggregator_that_was_killed() -> None:
    """The kernel ends them; the run goes on with a new aggregator and new workers."""
    before = children()
    tree = {"num_workers": 2, "num_aggregation_workers": 1, "learner_placement": "driver"}
    workers = Workers(impala.Config.make(**SMALL, **tree))
    flow = impala.plan(ParallelRollouts(workers), workers)
    with flow.run("local", on_failure="restart") as run:
        next(run)
        old = children() - before
        os.kill(run.workers()["aggregator-0"]["pid"], signal.SIGKILL)
        for _ in range(20):
            next(run)
        assert run.workers()["aggregator-0"]["incarnation"] == 1
        assert gone(list(old))
        assert len(children() - before) == 3
        assert run.ledger().balanced
    assert gone(list(children() - before))


@pytest.mark.ray
@pytest.mark.proc
@pytest.mark.usefixtures("users_ray")
def test_a_tree_on_ray() -> None:
    """Aggregators are Ray actors that start Ray actors, and end them."""
    workers = Workers(impala.Config.make(**SMALL, num_workers=2, num_aggregation_workers=1))
    with impala.plan(ParallelRollouts(workers), workers).run("ray") as run:
        results = [next(run) for _ in range(5)]
        assert run.ledger().balanced
    assert all(result.steps >= 60 for result in results)


# -- acting with what was trained ------------------------------------------------------------------


def test_a_trained_policy_that_remembers_acts_and_evaluates() -> None:
    """It goes on from what it saw, forgets at a start, and evaluates whole episodes."""
    trained = short(steps=300, **MEMORY).policy
    one, two = np.zeros(2, np.float32), np.full(2, 0.1, np.float32)
    assert trained.act(one, starts=True) in (0, 1)
    first = trained._memory
    trained.act(two)
    assert first is not None
    assert not np.array_equal(trained._memory, first)
    trained.act(one, starts=True)
    assert np.array_equal(trained._memory, first)
    assert trained.act(np.stack([one, two])).shape == (2,)
    assert len(trained.evaluate(5)) == 5


# -- images ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.proc
@pytest.mark.timeout(300)
@pytest.mark.parametrize("algorithm", ["impala", "ppo"])
def test_pong_runs_on_processes(algorithm: str) -> None:
    """A minute of images without an error; every figure is a number."""
    pytest.importorskip("ale_py")
    trained = train(algorithm, "ALE/Pong-v5", until={"seconds": 60}, engine="local")
    last = trained.history[-1]
    assert np.isfinite([last["policy_loss"], last["value_loss"], last["entropy"]]).all()
    rate = last["steps"] / last["seconds"]
    print(f"{algorithm}: {last['steps']} steps, {rate:.0f} steps/s, {len(trained.history)} updates")
