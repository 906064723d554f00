"""Operators between rollouts, replay actors and learning."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from rillflow.errors import RunError
from rillflow.experience.batch import Array, SampleBatch
from rillflow.flows.flow import Flow
from rillflow.flows.parallel import ParallelFlow
from rillflow.flows.sources import from_actors
from rillflow.graph.context import Context, Operator
from rillflow.graph.handles import Actors
from rillflow.learning.replay_config import ReplayConfig
from rillflow.learning.results import RowStats, TrainStats
from rillflow.rl.actor_item_pairs import Paired, unpaired
from rillflow.rl.faults import keeper_policy
from rillflow.rl.replay_actor import KEY_BITS, ReplayActor
from rillflow.rl.train import learner_of
from rillflow.rl.workers import Workers
from rillflow.types import Placement

B = TypeVar("B", bound=Paired[SampleBatch])
R = TypeVar("R", bound=Paired[SampleBatch | RowStats])
S = TypeVar("S", bound=Paired[TrainStats])

RLLIB_APEX = ReplayConfig(prioritized_replay=True, buffer_size=10_000, train_batch_size=512)
"""replay for settings that say nothing of it: the defaults of the original Ape-X in RLlib"""


def create_replay_actors(cfg: Any = None, *, placement: Placement = "process") -> Actors:
    """The shards of replay that a configuration asks for; starts nothing.

    >>> from rillflow.algorithms import apex
    >>> create_replay_actors(apex.Config(num_replay_buffer_shards=4))
    <4 actors 'replay' of ReplayActor>
    """
    cfg = cfg if isinstance(cfg, ReplayConfig) else RLLIB_APEX
    return Actors.of(
        ReplayActor,
        cfg.num_replay_buffer_shards,
        name="replay",
        placement=placement,
        on_failure=keeper_policy(cfg),
        **cfg.replay_options,
    )


class StoreToReplayBuffer(Operator[Paired[SampleBatch], Any]):
    """Send each batch to the replay actors in turn, and pass it on.

    >>> from rillflow.algorithms import apex
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(apex.Config())
    >>> store = StoreToReplayBuffer(create_replay_actors(workers.config))
    >>> with ParallelRollouts(workers, mode="async").for_each(store).run("sim") as run:
    ...     shapes = [next(run).shape for _ in range(4)]
    ...     shapes, run.ledger().balances()[0].done
    ([(12, 8), (12, 8), (12, 8), (12, 8)], {'stored': 4})

    Of the twelve steps eight are the fragment's; four have waited (see `WaitingSteps`).

    What comes unread from a worker, behind `gather_async`, goes on unread: it reaches the replay
    actor without a copy in the driver. The ledger counts the item as stored.
    """

    takes_ref = True

    def __init__(self, actors: Actors) -> None:
        self.actors = actors
        self.turn = 0

    def __call__(self, batch: B, ctx: Context) -> B:
        """Send it to the next in turn."""
        turn = self.turn % len(self.actors)  # saved by a run that had more of them
        ctx.send(self.actors[turn], "add", unpaired(batch))
        self.turn = (turn + 1) % len(self.actors)
        ctx.mark("stored")
        return batch


def ParallelReplay(actors: Actors) -> ParallelFlow[SampleBatch]:  # noqa: N802 - the paper's name
    """Training batches of each replay actor, as a parallel flow.

    >>> ParallelReplay(create_replay_actors()).gather_sync()
    Flow(gather_sync)

    A replay actor gives nothing before it holds its share of `learning_starts` rows.
    """
    return from_actors(actors, "replay", concat=SampleBatch.concat, label="replay")


def Replay(actors: Actors, *, num_async: int = 4) -> Flow[SampleBatch]:  # noqa: N802 - likewise
    """Training batches of all replay actors as they are ready, at most `num_async` ahead of each.

    >>> from rillflow.algorithms import apex
    >>> from rillflow.flows.merge import Concurrently
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(apex.Config(learning_starts=100, train_batch_size=32))
    >>> actors = create_replay_actors(workers.config)
    >>> store_op = ParallelRollouts(workers, mode="async").for_each(StoreToReplayBuffer(actors))
    >>> flow = Concurrently([store_op, Replay(actors)], output_indexes=[1])
    >>> [batch.steps for batch in flow.take(3, engine="sim")]
    [128, 128, 128]

    Each is `batches_per_draw` training batches, here four, which a learner tells apart again.
    """
    return ParallelReplay(actors).gather_async(num_async=num_async)


class UpdateReplayPriorities(Operator[Paired[SampleBatch | RowStats], Any]):
    """Send TD errors to the replay actors that the rows came from, and pass the item on.

    Behind training it uses the errors of the result; each actor is sent those of its own rows.
    Before training, on batches from replay, it needs the workers, with whose learner it computes
    them: one more pass over the batch.

    >>> from rillflow.algorithms import apex
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.train import TrainOneStep
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> from rillflow.flows.merge import Concurrently
    >>> workers = create_rollout_workers(apex.Config(learning_starts=100, train_batch_size=32))
    >>> actors = create_replay_actors(workers.config)
    >>> store_op = ParallelRollouts(workers, mode="async").for_each(StoreToReplayBuffer(actors))
    >>> train_op = Replay(actors).for_each(TrainOneStep(workers))
    >>> train_op = train_op.for_each(UpdateReplayPriorities())
    >>> flow = Concurrently([store_op, train_op], output_indexes=[1])
    >>> sorted(flow.take(1, engine="sim")[0].rows)
    ['keys', 'td_errors']
    """

    def __init__(self, workers: Workers | None = None) -> None:
        self.workers = workers

    def __call__(self, item: R, ctx: Context) -> R:
        """Send each shard what is its own."""
        found: Any = unpaired(item)
        if self.workers is not None and isinstance(found, SampleBatch):
            found = learner_of(self.workers, ctx).assess(found)
        keys, errors = _errors_of(found)
        priorities, sources = np.abs(errors), ctx.sources
        for actor in sources:
            own = keys >> KEY_BITS == actor.index if len(sources) > 1 else slice(None)
            if len(keys[own]):
                ctx.send(actor, "update_priorities", keys[own], priorities[own])
        return item


def _errors_of(item: Any) -> tuple[Array, Array]:
    """Keys and TD errors of the rows of a training result, or of a batch that has them."""
    rows = item.rows if isinstance(item, RowStats) else item
    try:
        return np.ravel(rows["keys"]), np.ravel(rows["td_errors"])
    except (KeyError, TypeError):
        raise RunError(
            "UpdateReplayPriorities needs `td_errors` and `keys` of each row, which the loss "
            f"puts among its figures; found {item!r}. Before training, give it the workers: "
            "UpdateReplayPriorities(workers)."
        ) from None


class UpdateTargetNetwork(Operator[Paired[TrainStats], Any]):
    """Copy the trained network to the target network, each time `freq` more rows were trained.

    >>> from rillflow.algorithms import async_dqn
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.train import ApplyGradients, ComputeGradients
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(async_dqn.Config(num_envs_per_worker=4, n_step=1))
    >>> grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    >>> update = UpdateTargetNetwork(workers, freq=100, in_workers=True)
    >>> flow = grads.for_each(ApplyGradients(workers)).for_each(update, name="update")
    >>> with flow.run("sim") as run:
    ...     rows = sum(next(run).steps for _ in range(10))
    ...     run.stats().operator("update").counters["target_updates"] == rows // 100
    True

    It stands behind the operator that trains; the learner then no longer updates the network by
    itself. With `in_workers` the workers, which compute gradients, are sent the new target network
    too. Each update is counted as `target_updates`.
    """

    def __init__(self, workers: Workers, freq: int, *, in_workers: bool = False) -> None:
        self.workers = workers
        self.freq = freq
        self.in_workers = in_workers
        self.since = 0

    def on_start(self, ctx: Context) -> None:
        """From now on the target network changes here alone."""
        learner_of(self.workers, ctx).target_freq = None

    def __call__(self, result: S, ctx: Context) -> S:
        """Count the rows of one result."""
        found: Any = unpaired(result)
        self.since += found.steps
        if self.since >= self.freq:
            self.since %= self.freq
            learner = learner_of(self.workers, ctx)
            if learner.version == 0:
                raise RunError(
                    "UpdateTargetNetwork updates the target network of the learner in the driver, "
                    "but that one has not trained: a LearnerThread did, which updates its own by "
                    "`target_network_update_freq`. Leave UpdateTargetNetwork out."
                )
            learner.update_target()
            ctx.count("target_updates")
            if self.in_workers:
                target = ctx.put(self.workers.message(learner.get_target_weights()))
                key = f"target of {self.workers.weights_key}"
                ctx.send(self.workers.actors, "set_target", target, key=key)
        return result
