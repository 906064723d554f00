"""Ape-X: distributed prioritized replay (Horgan et al. 2018, arXiv:1803.00933)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rillflow.algorithms.dqn import MEMORY, MOUNTAIN_CAR, STEADY
from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.distributed_replay import DistributedReplayConfig
from rillflow.learning.q_learning import (
    QConfig,
    modules,
    prepare,
    tells_values,
    update,
)
from rillflow.learning.q_switches import rates_that_stay
from rillflow.learning.results import TrainStats
from rillflow.policies.exploration_schedules import graded
from rillflow.policies.explorers import EpsilonGreedy, Explorer
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
class Config(QConfig, DistributedReplayConfig):
    """Settings of Ape-X.

    The last policy is to be as good as the best: the target network holds still for a hundred
    updates, so that values do not chase themselves, and the learning rate falls.
    """

    double_q: bool = True
    dueling: bool = True
    prioritized_replay: bool = True
    worker_priorities: bool = True
    n_step: int = 5
    batches_per_draw: int = 4
    training_intensity: float = 16.0
    target_network_update_freq: int = 6400
    final_lr: float | None = 1e-4
    lr_updates: int = 20_000
    num_replay_buffer_shards: int = 2

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        return super().problems() + rates_that_stay(self, "Ape-X")


TUNED: dict[str, dict[str, Any]] = {
    "memory": MEMORY,
    "CartPole-v1": {
        "hidden": (128, 128),
        "activation": "tanh",
        "dueling": False,
        "n_step": 3,
        **STEADY,
        "worker_priorities": False,
        "final_lr": 1e-5,
        "lr_updates": 24_000,
    },
    "MountainCar-v0": MOUNTAIN_CAR | {"dueling": False, "final_lr": None},
    "atari": {
        "batches_per_draw": 1,
        "learner_queue_size": 16,
        "weights_every": 16,
        "training_intensity": 8.0,
        "target_network_update_freq": 2000,
        "final_lr": None,
    },
    "atari-gpu": {
        "env_config": {"resumable": False},  # its games would cost a twentieth of the steps
        "num_envs_per_worker": 32,
        "rollout_fragment_length": 20,
        "n_step": 3,
        "lr": 1e-4,
        "adam_epsilon": 1.5e-4,
        "train_batch_size": 512,
        "training_intensity": 4.0,
        "buffer_size": 200_000,
        "learning_starts": 20_000,
        "target_network_update_freq": 256_000,
        "learner_queue_size": 4,
        "weights_every": 8,
    },
}
"""settings for environments that the defaults do not suit"""


def explorer(cfg: Config) -> Explorer:
    """A rate of its own for each worker, from 0.4 (or `epsilon`) down to its eighth power; with
    noisy layers none."""
    if cfg.noisy:
        return EpsilonGreedy(lambda place, steps: 0.0, tells_values(cfg))
    rate = graded(0.4 if cfg.epsilon is None else cfg.epsilon)
    return EpsilonGreedy(lambda place, steps: rate(place), tells_values(cfg))


def plan(
    rollouts: Rollouts, workers: AnyWorkers, cfg: DistributedReplayConfig | None = None
) -> Flow[TrainStats]:
    """Rollouts into replay actors, a learner of its own, priorities back to replay."""
    workers, cfg = bind(DistributedReplayConfig, rollouts, workers, cfg)
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


APEX = Algorithm(
    "apex",
    Config,
    modules,
    update,
    plan,
    prepare=prepare,
    explorer=explorer,
    tuned=TUNED,
    recurrent=True,
)
