"""Ape-X: distributed prioritized replay (Horgan et al. 2018, arXiv:1803.00933)."""

from __future__ import annotations

from dataclasses import dataclass

from rillflow.batch import SampleBatch
from rillflow.graph.flow import Flow
from rillflow.graph.handles import Background, Queue
from rillflow.graph.merge import Concurrently
from rillflow.graph.parallel import ParallelFlow
from rillflow.graph.queues import Dequeue, Enqueue
from rillflow.rl.learner_thread import LearnOnThread, PublishWeights, UpdateWorkerWeights
from rillflow.rl.q_learning import QConfig
from rillflow.rl.q_learning import flat_rows as postprocess
from rillflow.rl.q_learning import q_loss as loss
from rillflow.rl.replay import (
    MakeTransitions,
    Replay,
    StoreToReplayBuffer,
    UpdateReplayPriorities,
    create_replay_actors,
)
from rillflow.rl.results import TrainStats
from rillflow.rl.workers import Workers

__all__ = ["Config", "loss", "plan", "postprocess"]


@dataclass(frozen=True, kw_only=True)
class Config(QConfig):
    """Settings of Ape-X."""

    double_q: bool = True
    dueling: bool = True
    prioritized_replay: bool = True
    n_step: int = 5
    num_replay_buffer_shards: int = 2
    max_weight_sync_delay: int = 400
    """steps of a worker after which it is sent new weights"""
    learner_queue_size: int = 16
    """training batches that may wait for the learner"""

    def exploration(self, worker: int, steps: int) -> float:
        """A rate of its own for each worker, from 0.4 down to 0.4 ** 8."""
        return float(0.4 ** (1 + 7 * worker / max(1, self.num_workers - 1)))


def plan(
    rollouts: ParallelFlow[SampleBatch], workers: Workers, cfg: Config | None = None
) -> Flow[TrainStats]:
    """Rollouts into replay actors, a learner on its own thread, priorities back to replay."""
    cfg = cfg or workers.config  # type: ignore[assignment]
    assert isinstance(cfg, Config)
    replay = create_replay_actors(cfg)
    inqueue: Queue[SampleBatch] = Queue(capacity=cfg.learner_queue_size, name="learner.in")
    learn = LearnOnThread(workers, cfg.target_network_update_freq)
    learner = Background(learn, name="learner", inqueue=inqueue)
    rows = rollouts.for_each(MakeTransitions(cfg.n_step, cfg.gamma)).gather_async(num_async=2)
    store_op = rows.for_each(StoreToReplayBuffer(actors=replay)).for_each(
        UpdateWorkerWeights(workers, learner, cfg.max_weight_sync_delay)
    )
    replay_op = Replay(actors=replay, num_async=4).for_each(Enqueue(learner.inqueue))
    update_op = (
        Dequeue(learner.outqueue)
        .for_each(PublishWeights(workers))
        .for_each(UpdateReplayPriorities())
    )
    turns = cfg.train_turns / max(1, cfg.num_workers)  # of the learner, for each fragment stored
    store_and_update = Concurrently([store_op, update_op], output_indexes=[1], weights=[1, turns])
    return Concurrently([replay_op, store_and_update], mode="async", output_indexes=[1])
