"""Operators between rollouts, replay actors and learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.actors.replay_actor import KEY_BITS, ReplayActor
from rillflow.batch import SampleBatch
from rillflow.errors import RunError
from rillflow.graph.flow import Flow
from rillflow.graph.handles import Actors
from rillflow.graph.parallel import ParallelFlow
from rillflow.ops.context import Context, Operator
from rillflow.ops.sources import from_actors
from rillflow.rl.config import AlgorithmConfig
from rillflow.rl.pairs import unpaired
from rillflow.rl.q_learning import QConfig
from rillflow.rl.results import RowStats, TrainStats
from rillflow.rl.train import learner_of
from rillflow.rl.workers import Workers
from rillflow.types import Placement


def create_replay_actors(
    cfg: AlgorithmConfig | None = None, *, placement: Placement = "process"
) -> Actors:
    """The shards of replay that a configuration asks for; starts nothing.

    >>> from rillflow.algorithms import apex
    >>> create_replay_actors(apex.Config(num_replay_buffer_shards=4))
    <4 actors 'replay' of ReplayActor>
    """
    cfg = cfg if isinstance(cfg, QConfig) else QConfig(prioritized_replay=True)
    shards = cfg.num_replay_buffer_shards
    return Actors.of(
        ReplayActor,
        shards,
        -(-cfg.buffer_size // shards),
        -(-cfg.learning_starts // shards),
        cfg.train_batch_size,
        prioritized=cfg.prioritized_replay,
        alpha=cfg.prioritized_replay_alpha,
        beta=cfg.prioritized_replay_beta,
        epsilon=cfg.prioritized_replay_epsilon,
        n_step=cfg.n_step,
        gamma=cfg.gamma,
        name="replay",
        placement=placement,
    )


class StoreToReplayBuffer(Operator[Any, Any]):
    """Send each batch to the replay actors in turn, and pass it on.

    What comes unread from a worker, behind `gather_async`, goes on unread.
    """

    takes_ref = True

    def __init__(self, *, actors: Actors) -> None:
        self.actors = actors
        self.turn = 0

    def __call__(self, batch: Any, ctx: Context) -> Any:
        """Send it to the next in turn."""
        ctx.send(self.actors[self.turn], "add", unpaired(batch))
        self.turn = (self.turn + 1) % len(self.actors)
        ctx.mark("stored")
        return batch


def ParallelReplay(*, actors: Actors) -> ParallelFlow[SampleBatch]:  # noqa: N802 - the paper's name
    """Training batches of each replay actor."""
    replays: ParallelFlow[SampleBatch] = from_actors(
        actors, "replay", concat=SampleBatch.concat, name="replay"
    )
    return replays


def Replay(*, actors: Actors, num_async: int = 4) -> Flow[SampleBatch]:  # noqa: N802 - likewise
    """Training batches of all replay actors as they are ready, at most `num_async` ahead."""
    return ParallelReplay(actors=actors).gather_async(num_async=num_async)


class UpdateReplayPriorities(Operator[Any, Any]):
    """Send TD errors to the replay actors that the rows came from, and pass the item on.

    Behind training it uses the errors of the result. Before training, on batches from replay, it
    needs the workers, with whose learner it computes them.
    """

    def __init__(self, workers: Workers | None = None) -> None:
        self.workers = workers

    def __call__(self, item: Any, ctx: Context) -> Any:
        """Send each shard what is its own."""
        keys, errors = self._errors(unpaired(item), ctx)
        priorities = np.abs(errors)
        shards = keys >> KEY_BITS
        for actor in ctx.sources:
            own = shards == actor.index
            if own.any():
                ctx.send(actor, "update_priorities", keys[own], priorities[own])
        return item

    def _errors(self, item: Any, ctx: Context) -> tuple[Any, Any]:
        if isinstance(item, SampleBatch) and "td_errors" in item and "keys" in item:
            return item["keys"].reshape(-1), item["td_errors"].reshape(-1)
        if isinstance(item, SampleBatch) and self.workers is not None:
            item = learner_of(self.workers, ctx).assess(item)
        if not isinstance(item, RowStats) or not {"keys", "td_errors"} <= item.rows.keys():
            raise RunError(
                "UpdateReplayPriorities needs `td_errors` and `keys` of each row, which the loss "
                f"puts among its figures; found {item!r}. Before training, give it the workers: "
                "UpdateReplayPriorities(workers)."
            )
        return item.rows["keys"], item.rows["td_errors"]


class UpdateTargetNetwork(Operator[TrainStats, TrainStats]):
    """Copy the trained network to the target network, each time `freq` more rows were trained.

    The learner then no longer does so by itself. With `in_workers` the workers, which compute
    gradients, are sent the new target network too.
    """

    def __init__(self, workers: Workers, freq: int, *, in_workers: bool = False) -> None:
        self.workers = workers
        self.freq = freq
        self.in_workers = in_workers
        self.since = 0

    def on_start(self, ctx: Context) -> None:
        """From now on the target network changes here alone."""
        learner_of(self.workers, ctx).target_freq = None

    def __call__(self, result: TrainStats, ctx: Context) -> TrainStats:
        """Count the rows of one result."""
        self.since += result.steps
        if self.since >= self.freq:
            self.since %= self.freq
            learner = learner_of(self.workers, ctx)
            learner.update_target()
            ctx.count("target_updates")
            if self.in_workers:
                target = ctx.put(self.workers.message(learner.get_target_weights()))
                ctx.send(self.workers.actors, "set_target", target, key="target")
        return result
