"""Q learning with uniform replay and a target network (Mnih et al. 2013, arXiv:1312.5602)."""

from __future__ import annotations

from dataclasses import dataclass

from rillflow.algorithms.dqn import MEMORY, MOUNTAIN_CAR, STEADY
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
    create_replay_actors,
)
from rillflow.rl.rollouts import Rollouts, bulk_sync
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(QConfig):
    """Settings of simple q learning.

    Without double q learning values grow without bound on a quick target network: to hundreds of
    times the largest return, if it is renewed every 60 updates. Looking several steps ahead, and a
    target that holds still for 300 updates, keep them in check; the falling learning rate makes the
    last policy as good as the best.
    """

    n_step: int = 5
    target_network_update_freq: int = 20_000
    final_lr: float | None = 1e-4
    lr_updates: int = 20_000
    batches_per_draw: int = 4

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if self.prioritized_replay:
            wrong.append(
                "prioritized_replay needs errors that are given back to replay, and simple_q draws "
                "rows alike: leave it out, or use dqn"
            )
        return wrong


TUNED = {
    "memory": MEMORY,
    "CartPole-v1": {
        **STEADY,
        "hidden": (128, 128),
        "activation": "tanh",
        "final_lr": 1e-5,
        "lr_updates": 36_000,
    },
    "MountainCar-v0": MOUNTAIN_CAR | {"training_intensity": 16.0, "final_lr": None},
}
"""settings for environments that the defaults do not suit"""


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts into replay; batches from replay are learned."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    replay = create_replay_actors(cfg, placement="driver")
    store_op = bulk_sync(rollouts).for_each(StoreToReplayBuffer(replay))
    replay_op = ParallelReplay(replay).gather_sync().flatten().for_each(TrainOneStep(workers))
    return Concurrently([store_op, replay_op], output_indexes=[1], weights=[1, cfg.train_turns])


SIMPLE_Q = Algorithm(
    "simple_q",
    Config,
    modules,
    update,
    plan,
    prepare=prepare,
    explorer=explorer,
    tuned=TUNED,
    recurrent=True,
)
