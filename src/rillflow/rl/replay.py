"""Operators between rollouts, replay actors and learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.actors.replay_actor import KEY_BITS, ReplayActor
from rillflow.batch import BOOTSTRAP, SampleBatch
from rillflow.errors import RunError
from rillflow.graph.flow import Flow
from rillflow.graph.handles import Actors
from rillflow.graph.parallel import ParallelFlow
from rillflow.ops.context import Context, Operator
from rillflow.ops.sources import from_actors
from rillflow.replay import n_step_transitions
from rillflow.rl.q_learning import QConfig, RowStats
from rillflow.rl.results import TrainStats
from rillflow.rl.train import learner_of
from rillflow.rl.workers import Workers
from rillflow.types import Placement

_NOT_STORED = frozenset({BOOTSTRAP, "valid", "logp"})


def create_replay_actors(cfg: QConfig, *, placement: Placement = "process") -> Actors:
    """The shards of replay that a configuration asks for; starts nothing."""
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
        name="replay",
        placement=placement,
    )


class MakeTransitions(Operator[SampleBatch, SampleBatch]):
    """A fragment to rows that each stand alone, as a batch of one step: columns are [1, N, ...].

    Inside the workers by `rollouts.for_each(MakeTransitions(...))`, so that rows can go from there
    to replay. Steps that only reset an environment are left out.
    """

    def __init__(self, n_step: int = 1, gamma: float = 0.99) -> None:
        self.n_step = n_step
        self.gamma = gamma

    def __call__(self, batch: SampleBatch) -> SampleBatch:
        """The rows of one fragment."""
        columns = {name: c for name, c in batch.items() if name not in _NOT_STORED}
        if "next_obs" not in columns:
            # the next observation of step t is the observation of step t + 1
            columns["next_obs"] = np.concatenate([batch["obs"][1:], batch[BOOTSTRAP][None]])
        rows = n_step_transitions(columns, self.n_step, self.gamma)
        if "valid" in batch:
            kept = np.flatnonzero(batch["valid"])
            rows = {name: column[kept] for name, column in rows.items()}
        return SampleBatch({name: column[None] for name, column in rows.items()})


class StoreToReplayBuffer(Operator[Any, Any]):
    """Send each batch of transitions to the replay actors in turn, and pass it on.

    What comes unread from a worker, behind `gather_async`, goes on unread.
    """

    takes_ref = True

    def __init__(self, *, actors: Actors) -> None:
        self.actors = actors
        self.turn = 0

    def __call__(self, batch: Any, ctx: Context) -> Any:
        """Send it to the next in turn."""
        ctx.send(self.actors[self.turn], "add", batch)
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


class UpdateReplayPriorities(Operator[TrainStats, TrainStats]):
    """Send the TD errors of a training result to the replay actors that its rows came from."""

    def __call__(self, result: TrainStats, ctx: Context) -> TrainStats:
        """Send each shard what is its own."""
        if not isinstance(result, RowStats) or not {"keys", "td_errors"} <= result.rows.keys():
            raise RunError(
                "UpdateReplayPriorities needs `td_errors` and `keys` of each row, which the loss "
                f"puts among its figures; found {result!r}."
            )
        keys = result.rows["keys"]
        priorities = np.abs(result.rows["td_errors"])
        shards = keys >> KEY_BITS
        for actor in ctx.sources:
            own = shards == actor.index
            if own.any():
                ctx.send(actor, "update_priorities", keys[own], priorities[own])
        return result


class UpdateTargetNetwork(Operator[TrainStats, TrainStats]):
    """Copy the trained network to the target network, each time `freq` more rows were trained."""

    def __init__(self, workers: Workers, freq: int) -> None:
        self.workers = workers
        self.freq = freq
        self.since = 0

    def __call__(self, result: TrainStats, ctx: Context) -> TrainStats:
        """Count the rows of one result."""
        self.since += result.steps
        if self.since >= self.freq:
            self.since %= self.freq
            learner_of(self.workers, ctx).update_target()
            ctx.count("target_updates")
        return result
