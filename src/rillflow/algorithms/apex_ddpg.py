"""Ape-X with DDPG's update (Horgan et al. 2018, arXiv:1803.00933)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rillflow.algorithms import ddpg
from rillflow.algorithms.ddpg import modules, noisy, update
from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import below_one
from rillflow.learning.prepare import flat_rows
from rillflow.learning.results import TrainStats
from rillflow.policies.explorers import Explorer, graded
from rillflow.rl.learner_thread import LearnerThread
from rillflow.rl.replay import (
    Replay,
    StoreToReplayBuffer,
    UpdateReplayPriorities,
    create_replay_actors,
)
from rillflow.rl.rollouts import Rollouts, as_ready
from rillflow.rl.train import TrainOneStep
from rillflow.rl.weights import UpdateWorkerWeights
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(ddpg.Config):
    """Settings of Ape-X-DDPG.

    Workers make many steps while the learner makes an update, so there are fewer updates for each
    of them than in DDPG, and rows look further ahead.
    """

    num_workers: int = 2
    num_envs_per_worker: int = 8
    rollout_fragment_length: int = 8
    exploration_noise: float = 0.4
    """standard deviation of what the first worker draws in a step; that of the last one is its
    eighth power"""
    n_step: int = 3
    prioritized_replay: bool = True
    training_intensity: float = 32.0
    num_replay_buffer_shards: int = 2
    max_weight_sync_delay: int = 400
    """steps of a worker after which it is sent new weights"""
    learner_queue_size: int = 4
    """draws from replay that may wait for the learner"""
    learner_placement: Literal["driver", "thread", "process"] = "process"
    """where the learner lives: in the driver, on a thread of it, or in a process of its own"""
    weights_every: int = 1
    """draws learned between two snapshots of the weights, of which workers get the newest"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems() + below_one(self, "weights_every", "learner_queue_size")
        if self.exploration_noise > 1:
            wrong.append(
                "exploration_noise is that of the first worker, of which others have powers, so it "
                f"must be at most 1, got {self.exploration_noise!r}"
            )
        return wrong


TUNED: dict[str, dict[str, Any]] = {"Pendulum-v1": {"hidden": (64, 64), "lr": 1e-3, "tau": 0.01}}
"""settings for environments that the defaults do not suit"""


def explorer(cfg: Config) -> Explorer:
    """Noise of a size of its own for each worker, after steps that are uniformly random."""
    return noisy(cfg, graded(cfg.exploration_noise))


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rollouts into replay actors, a learner of its own, priorities back to replay."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    replay = create_replay_actors(cfg)
    learner = LearnerThread(workers, cfg)
    store_op = (
        as_ready(rollouts, num_async=2)
        .for_each(StoreToReplayBuffer(replay))
        .for_each(UpdateWorkerWeights(workers, cfg.max_weight_sync_delay))
    )
    ahead = max(1, 4 // cfg.batches_per_draw)  # four batches of each shard
    replay_op = Replay(replay, num_async=ahead).for_each(Enqueue(learner.inqueue))
    update_op = (
        Dequeue(learner.outqueue).for_each(UpdateReplayPriorities()).for_each(TrainOneStep(workers))
    )
    turns = cfg.train_turns / max(1, cfg.num_workers)  # of the learner, for each fragment stored
    store_and_update = Concurrently([store_op, update_op], output_indexes=[1], weights=[1, turns])
    return Concurrently([replay_op, store_and_update], mode="async", output_indexes=[1])


APEX_DDPG = Algorithm(
    "apex_ddpg", Config, modules, update, plan, prepare=flat_rows, explorer=explorer, tuned=TUNED
)
