"""The state of rollout workers: a saved run goes on bit for bit; a restart is no new start."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from rillflow.algorithms import dqn, get_algorithm, ppo
from rillflow.engines.sim import Sim
from rillflow.engines.sim_faults import Kill
from rillflow.learning.results import RowStats, TrainStats
from rillflow.policies.exploration_schedules import Place
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.scheduler.run import Run
from rillflow.types import ActorInfo

SMALL = {"num_envs_per_worker": 2, "rollout_fragment_length": 8, "hidden": (16,)}
REPLAY = {
    **SMALL,
    "learning_starts": 64,
    "train_batch_size": 16,
    "training_intensity": 1.0,
    "target_network_update_freq": 48,
}
FALLING = {**REPLAY, "epsilon_timesteps": 200}
REPLAY_SEQUENCES = {**REPLAY, "memory_size": 8, "burn_in": 2}
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", {**SMALL, "train_batch_size": 60, "sgd_minibatch_size": 16, "num_sgd_iter": 2}),
    "a2c": ("a2c", {**SMALL, "train_batch_size": 40}),
    "a3c": ("a3c", SMALL),
    "dqn": ("dqn", FALLING),
    "apex": ("apex", {**REPLAY, "max_weight_sync_delay": 32}),
    "impala": ("impala", {**SMALL, "train_batch_size": 40}),
    "impala with memory": (
        "impala",
        {**SMALL, "train_batch_size": 40, "model": "lstm", "lstm_size": 8},
    ),
    "ppo with memory": (
        "ppo",
        {**SMALL, "train_batch_size": 60, "sgd_minibatch_size": 16, "memory": "gru"},
    ),
    "dqn with memory": (
        "dqn",
        {**FALLING, "prioritized_replay": True, "memory": "lstm", "memory_size": 8, "burn_in": 2},
    ),
    "r2d2": ("r2d2", {**REPLAY_SEQUENCES, "max_weight_sync_delay": 32}),
    "appo": ("appo", {**SMALL, "train_batch_size": 40, "newer_batches_between": 2}),
    "impala aggregated": (
        "impala",
        {**SMALL, "train_batch_size": 40, "num_workers": 3, "num_aggregation_workers": 2},
    ),
}


def started(name: str, engine: Sim | str = "sim", **settings: Any) -> tuple[Run[Any], Workers]:
    """A run of workers and a plan built anew, as another process would build them."""
    algorithm, own = PLANS[name]
    module = get_algorithm(algorithm)
    workers = Workers(module.Config.make(**{**own, **settings}))
    return module.plan(ParallelRollouts(workers), workers).run(engine, seed=5), workers


def exactly(result: TrainStats) -> tuple[Any, ...]:
    """A result, to the last bit."""
    rows = result.rows if isinstance(result, RowStats) else {}
    return result.steps, result.stats, {name: value.tobytes() for name, value in rows.items()}


def some(run: Run[Any], workers: Workers, count: int) -> tuple[list[Any], dict[str, bytes]]:
    """The next results, and the weights after them."""
    results = [exactly(result) for result in itertools.islice(run, count)]
    weights = run.shared[workers.weights_key].weights
    return results, {name: value.tobytes() for name, value in weights.items()}


@pytest.mark.parametrize("latency", [None, lambda rng: rng.random()], ids=["immediate", "random"])
@pytest.mark.parametrize("name", PLANS)
def test_a_resumed_run_equals_the_one_that_was_saved(name: str, latency: Any) -> None:
    """CartPole can be saved exactly, so the rest of the run is the same to the last bit."""
    for cut in (0, 4):
        run, workers = started(name, Sim(latency=latency))
        with run:
            some(run, workers, cut) if cut else None
            state = run.get_state()
            rest, ledger = some(run, workers, 8), str(run.ledger())
        resumed, workers = started(name, Sim(latency=latency))
        with resumed:
            resumed.set_state(state)
            assert some(resumed, workers, 8) == rest, f"after a cut at {cut}"
            assert str(resumed.ledger()) == ledger


def test_environments_that_cannot_be_saved_begin_new_episodes() -> None:
    """The worker goes on with its policy and counts, and remembers nothing of the old episodes."""

    def make() -> RolloutWorker:
        settings = {"model": "lstm", "lstm_size": 8, "env": "Acrobot-v1", "num_envs_per_worker": 2}
        config = get_algorithm("impala").Config.make(**settings)
        workers = Workers(config)
        return RolloutWorker(workers.config, workers.spec, ActorInfo("worker-0", 0, 0, seed=3))

    one, other = make(), make()
    one.sample()
    other.set_state(one.get_state())
    assert other.starts.all()
    assert other.total_steps == one.total_steps > 0
    assert other.sample()["starts"][0].all()


# -- exploration -----------------------------------------------------------------------------------


def epsilons(*, index: int = 0, incarnation: int = 0) -> list[float]:
    """Exploration of the first three fragments of a worker."""
    workers = Workers(dqn.Config.make(**REPLAY))
    info = ActorInfo("worker", index, incarnation, seed=0)
    worker = RolloutWorker(workers.config, workers.spec, info)
    found = []
    for _ in range(3):
        worker.sample()
        found.append(worker.exploring.rate)
    return found


def test_exploration_falls_with_the_steps_of_the_worker() -> None:
    """From the first rate on."""
    first, second, third = epsilons()
    assert first == 1.0
    assert first > second > third


@pytest.mark.parametrize("who", [{"incarnation": 1}, {"index": 2}], ids=["restarted", "joined"])
def test_whoever_comes_late_explores_least(who: dict[str, int]) -> None:
    """A restarted worker cannot know how far the run is; it does not begin at random again."""
    assert epsilons(**who) == pytest.approx([0.04] * 3)


def test_a_run_goes_on_after_a_worker_was_lost() -> None:
    """The new incarnation has the newest weights, and explores at the final rate."""
    workers = Workers(dqn.Config.make(**REPLAY))
    flow = dqn.plan(ParallelRollouts(workers), workers)
    engine = Sim(faults=[Kill(actor="worker-1", request=4)])
    with flow.run(engine, on_failure="restart") as run:
        results, _ = some(run, workers, 12)
        state = run.call("worker-1", "get_state")
        assert run.workers()["worker-1"]["incarnation"] == 1
        assert run.ledger().balanced
    assert len(results) == 12
    exploring = workers.config.explorer().begin(workers.spec, Place(1, 2))
    exploring.start(state["total_steps"])
    assert exploring.rate == pytest.approx(0.04)


def test_the_columns_of_a_policy_without_memory_stay_as_they_were() -> None:
    """No column is added that nobody reads."""
    workers = Workers(ppo.Config.make(**SMALL))
    batch = RolloutWorker(workers.config, workers.spec, ActorInfo("worker", 0, 0, 0)).sample()
    assert "starts" not in batch
    assert "state" not in batch
    assert batch["obs"].dtype == np.float32
