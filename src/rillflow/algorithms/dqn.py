"""Deep q networks (Mnih et al. 2015, doi:10.1038/nature14236).

Double, dueling, prioritized and over n steps, each of which can be turned off; see Hessel et al.
2017, arXiv:1710.02298.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.q_learning import (
    QConfig,
    explorer,
    modules,
    prepare,
    update,
)
from rillflow.learning.results import TrainStats
from rillflow.rl.replay import (
    ParallelReplay,
    StoreToReplayBuffer,
    UpdateReplayPriorities,
    create_replay_actors,
)
from rillflow.rl.rollouts import Rollouts, bulk_sync
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(QConfig):
    """Settings of DQN."""

    double_q: bool = True
    dueling: bool = True
    prioritized_replay: bool = True
    n_step: int = 5
    batches_per_draw: int = 4


MOUNTAIN_CAR: dict[str, Any] = {
    "hidden": (128, 128),
    "activation": "tanh",
    "lr": 4e-3,
    "train_batch_size": 128,
    "target_network_update_freq": 10_000,
}
"""settings for MountainCar-v0, whose goal is not found by chance: values begin above all that there
is to get, so that what has been tried soon looks worse than what has not"""

MEMORY: dict[str, Any] = {
    "rollout_fragment_length": 32,
    "burn_in": 8,
    "train_batch_size": 512,
    "target_network_update_freq": 10_000,
    "scale_rewards": None,
}
"""settings for a policy that remembers: 16 sequences to an optimiser step, a target that stays for
about twenty of them, and returns of about the size of 1: of larger errors Huber's function leaves
little but the sign"""

STEADY: dict[str, Any] = {"scale_rewards": None}
"""settings for CartPole-v1 that keep the last policy as good as the best: of errors far above 1
Huber's function leaves the sign, so values are medians, and of a policy that hardly ever fails
these do not tell that it can"""

TUNED = {
    "memory": MEMORY,
    "CartPole-v1": {
        "hidden": (128, 128),
        "activation": "tanh",
        "lr": 2.3e-3,
        "dueling": False,
        "n_step": 3,
        "target_network_update_freq": 2560,
        "final_lr": 2.3e-4,
        "lr_updates": 8000,
        "prioritized_replay": False,
        "training_intensity": 16.0,
        "learning_starts": 500,
        "epsilon_timesteps": 2500,
        "final_epsilon": 0.02,
    },
    "MountainCar-v0": MOUNTAIN_CAR
    | {
        # Found with seeds 0 to 5; with 0.99 seed 0 never found the goal. Values end at -50 then,
        # not at -100: what has been tried gets there sooner. The rate of 4e-3 is needed: with half
        # of it seed 0 does not find the goal either.
        "gamma": 0.98,
        "training_intensity": 16.0,
        "double_q": False,
        "dueling": False,
        "prioritized_replay": False,
    },
    "atari": {
        "lr": 1e-4,
        "batches_per_draw": 1,
        "n_step": 3,
        "target_network_update_freq": 64_000,
        "learning_starts": 10_000,
        "epsilon_timesteps": 250_000,
        "final_epsilon": 0.01,
        "num_learner_threads": len(os.sched_getaffinity(0)),  # workers wait while it learns
    },
    "atari-gpu": {
        "env_config": {"resumable": False},  # its games would cost a twentieth of the steps
        "num_learner_threads": 1,
        "adam_epsilon": 1.5e-4,
        "train_batch_size": 256,
        "buffer_size": 200_000,
        "learning_starts": 20_000,
    },
}
"""settings for environments that the defaults do not suit"""


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts into replay; batches from replay are learned, so many rows per step."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    replay = create_replay_actors(cfg, placement="driver")
    store_op = bulk_sync(rollouts).for_each(StoreToReplayBuffer(replay))
    replay_op = ParallelReplay(replay).gather_sync().flatten().for_each(TrainOneStep(workers))
    if cfg.prioritized_replay:
        replay_op = replay_op.for_each(UpdateReplayPriorities())
    return Concurrently([store_op, replay_op], output_indexes=[1], weights=[1, cfg.train_turns])


DQN = Algorithm(
    "dqn",
    Config,
    modules,
    update,
    plan,
    prepare=prepare,
    explorer=explorer,
    tuned=TUNED,
    recurrent=True,
)
