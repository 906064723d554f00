"""Operators take an item or an `(actor, item)` pair: `zip_with_source_actor` is optional."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import a3c, apex, async_dqn, ppo
from rillflow.experience.batch import MultiAgentBatch, SampleBatch
from rillflow.rl.actor_item_pairs import unpaired
from rillflow.rl.metrics import ReportMetrics
from rillflow.rl.multi_agent import SelectExperiences
from rillflow.rl.replay import (
    Replay,
    StoreToReplayBuffer,
    UpdateReplayPriorities,
    UpdateTargetNetwork,
    create_replay_actors,
)
from rillflow.rl.rollouts import ConcatBatches, ParallelRollouts, StandardizeFields
from rillflow.rl.train import ApplyGradients, AverageGradients, ComputeGradients, TrainOneStep
from rillflow.rl.weights import UpdateWorkerWeights
from rillflow.rl.workers import Workers, create_rollout_workers

SMALL: dict[str, Any] = {"hidden": (8,), "num_envs_per_worker": 2, "rollout_fragment_length": 8}


def workers_of(module: Any, **settings: Any) -> Workers:
    return create_rollout_workers(module.Config.make(**SMALL, **settings))


def zipped(stream: Any, pairs: bool) -> Any:
    return stream.zip_with_source_actor() if pairs else stream


def figures(flow: Any, count: int = 4) -> list[Any]:
    """What the flow gives, without actors and clocks."""
    found = []
    for item in flow.take(count, engine="sim"):
        item = unpaired(item)
        if isinstance(item, dict):
            found.append({k: v for k, v in item.items() if k != "seconds" and v == v})
        else:
            found.append((item.steps, item.stats) if hasattr(item, "stats") else item.shape)
    return found


def training(pairs: bool) -> Any:
    workers = workers_of(ppo)
    batches = zipped(ParallelRollouts(workers, mode="bulk_sync"), pairs)
    batches = zipped(batches.combine(ConcatBatches(40)), pairs)
    batches = zipped(batches.for_each(StandardizeFields(["rewards"])), pairs)
    results = zipped(batches.for_each(TrainOneStep(workers)), pairs)
    return ReportMetrics(results, workers)


def gradients(pairs: bool) -> Any:
    workers = workers_of(async_dqn)
    batches = zipped(ParallelRollouts(workers), pairs)
    grads = zipped(batches.par_for_each(ComputeGradients()).gather_async(), pairs)
    results = zipped(grads.for_each(ApplyGradients(workers)), pairs)
    return results.for_each(UpdateTargetNetwork(workers, 40, in_workers=True))


def average(pairs: bool) -> Any:
    workers = workers_of(a3c)
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    mean = zipped(grads, pairs).batch(2).for_each(AverageGradients())
    return mean.for_each(ApplyGradients(workers))


def replay(pairs: bool) -> Any:
    workers = workers_of(apex, learning_starts=32, train_batch_size=16)
    actors = create_replay_actors(workers.config)
    rollouts = zipped(ParallelRollouts(workers, mode="async"), pairs)
    store_op = rollouts.for_each(StoreToReplayBuffer(actors))
    store_op = store_op.for_each(UpdateWorkerWeights(workers))
    batches = zipped(Replay(actors), pairs).for_each(UpdateReplayPriorities(workers))
    results = zipped(batches.for_each(TrainOneStep(workers)), pairs)
    update_op = results.for_each(UpdateReplayPriorities())
    return rf.Concurrently([store_op, update_op], output_indexes=[1])


@pytest.mark.parametrize("flow", [training, gradients, average, replay])
def test_pairs_make_no_difference(flow: Any) -> None:
    """With the actor beside each item the run is the same."""
    assert figures(flow(True)) == figures(flow(False))


def test_a_selection_from_a_pair() -> None:
    """Of one policy's experience."""
    both = MultiAgentBatch({"a": SampleBatch({"rewards": np.ones((3, 2))})})
    actor = rf.Actors.of(dict, 1)[0]
    assert SelectExperiences("a")((actor, both)).shape == (3, 2)


def test_two_of_anything_else_are_no_pair() -> None:
    """Only what begins with an actor, or with a tuple of actors, is one."""
    actors = rf.Actors.of(dict, 2)
    assert unpaired((actors[0], 1)) == 1
    assert unpaired(((actors[0], actors[1]), 1)) == 1
    for item in ((1, 2), ((), 2), (actors[0], 1, 2), [actors[0], 1]):
        assert unpaired(item) is item
