"""Operators that learn: what they count, what they send, what they average."""

from __future__ import annotations

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import a2c, a3c, dqn, ppo
from rillflow.learning.results import Gradients, TrainStats
from rillflow.rl.metrics import ReportMetrics
from rillflow.rl.replay import StoreToReplayBuffer, create_replay_actors
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.train import AverageGradients, ComputeGradients, TrainOneStep
from rillflow.rl.workers import Workers

SMALL = {"num_envs_per_worker": 4, "rollout_fragment_length": 10}


def make(module: object, **settings: object) -> Workers:
    functions = {"loss": module.loss, "postprocess": module.postprocess}  # type: ignore[attr-defined]
    return Workers(module.Config.make(**functions, **SMALL, **settings))  # type: ignore[attr-defined]


def test_training_marks_items_as_trained_and_publishes_to_all() -> None:
    """After one step every worker has the new version, and the ledger says trained."""
    workers = make(ppo, num_workers=2)
    flow = ParallelRollouts(workers, mode="bulk_sync").for_each(TrainOneStep(workers))
    with flow.run("sim") as run:
        for _ in range(3):
            stats = next(run)
        assert 60 < stats.steps <= 80
        (line,) = run.ledger().balances()
        assert line.done == {"trained": 6}
        assert run.stats().operator("gather_sync").lag_max == 0, "a synchronous plan has no lag"
        actors = run._scheduler.fleet.actors.values()
        versions = [actor.mail.newest[workers.weights_key] for actor in actors]
        assert versions == [3, 3]


def test_weights_are_serialised_once_per_version() -> None:
    """One put, however many workers."""
    workers = make(ppo, num_workers=3)
    flow = ParallelRollouts(workers, mode="bulk_sync").for_each(TrainOneStep(workers))
    with flow.run("sim") as run:
        puts, put = [], run.engine.put
        run.engine.put = lambda value: puts.append(value) or put(value)  # type: ignore[method-assign,func-returns-value]
        next(run)
        next(run)
    assert len(puts) == 2, "the first weights, and those of the one step that a round followed"


def test_gradients_go_to_their_source_alone() -> None:
    """A3C answers the worker that made the gradients, and nobody else."""
    workers = make(a3c, num_workers=2)
    with a3c.plan(ParallelRollouts(workers), workers).run("sim", trace=True) as run:
        for _ in range(6):
            next(run)
        told = [event for event in run.trace if event[1] == "tell"]
    assert len(told) == 2 + 5, "both at the start, then one per gradient that a request followed"


def test_the_average_of_gradients_is_an_average() -> None:
    """Weighted by the steps behind each."""
    one = Gradients({"w": np.array([1.0, 2.0])}, 10, {"loss": 1.0})
    two = Gradients({"w": np.array([4.0, 8.0])}, 30, {"loss": 3.0})
    mean = AverageGradients()([one, two])
    assert mean.steps == 40
    assert mean.values["w"].tolist() == [3.25, 6.5]
    assert mean.stats == {"loss": 2.5}


def test_averaged_gradients_of_parts_are_the_gradient_of_the_whole() -> None:
    """Two workers' gradients, averaged, equal one gradient over both batches."""
    from rillflow.experience.batch import SampleBatch
    from rillflow.learning.learner import Learner

    workers = make(a2c, num_workers=2, grad_clip=None)
    learner = Learner(workers.spec, workers.config, 0)
    rounds = ParallelRollouts(workers).gather_sync().take(1, engine="sim")
    parts = [SampleBatch({**b, "valid": np.ones(b.shape, bool)}) for b in rounds[0]]
    mean = AverageGradients()([learner.compute_gradients(part) for part in parts])
    whole = learner.compute_gradients(SampleBatch.concat(parts))
    for name, value in whole.values.items():
        np.testing.assert_allclose(mean.values[name], value, atol=1e-5)


def test_gradients_are_computed_where_the_batch_was_made() -> None:
    """The item that reaches the driver is a gradient."""
    workers = make(a3c, num_workers=2)
    flow = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    with rf.Flow(flow.node).run("sim") as run, pytest.raises(rf.OperatorError, match="weights"):
        next(run)  # nobody has sent weights: no operator of this flow owns a learner


def test_results_made_in_workers_are_read_for_the_report() -> None:
    """Only batches that were stored stay unread."""
    workers = make(a3c, num_workers=2)
    results = ParallelRollouts(workers).par_for_each(lambda b: TrainStats(b.steps, {"x": 1.0}))
    rows = ReportMetrics(results.gather_async(), workers).take(2, engine="sim")
    assert [row["x"] for row in rows] == [1.0, 1.0]


def test_stored_batches_give_rows_without_figures_and_stay_unread() -> None:
    """The steps that were sampled are reported all the same."""
    workers = make(a3c, num_workers=2)
    stored = ParallelRollouts(workers, mode="async").for_each(
        StoreToReplayBuffer(create_replay_actors())
    )
    flow = ReportMetrics(stored, workers)
    rows = flow.take(2, engine="sim")
    assert rows[1]["steps"] > rows[0]["steps"] > 0
    assert "entropy" not in rows[1]
    report = flow.node.options["fn"]
    assert report(rf.Ref())["steps"] == 0, "this reference cannot be read"


def test_weights_of_updates_that_no_request_follows_are_not_sent() -> None:
    """Four updates for each round of DQN's rollouts: workers are sent the last weights of each."""
    workers = make(
        dqn, num_workers=2, learning_starts=32, training_intensity=3.2, batches_per_draw=1
    )
    with dqn.plan(ParallelRollouts(workers), workers).run("sim", trace=True) as run:
        for _ in range(40):
            next(run)
        told = [event for event in run.trace if event[1:4] == ("tell", "worker-0", "set_weights")]
        versions = [event[4] for event in told]
        asked = sum(event[1:3] == ("request", "worker-0") for event in run.trace)
    assert workers.config.train_turns == 4
    assert versions[:3] == [0, 4, 8]
    assert versions == list(range(0, 40, 4))
    assert len(versions) <= asked
