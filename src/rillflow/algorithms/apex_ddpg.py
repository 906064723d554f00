"""Ape-X with DDPG's update (Horgan et al. 2018, arXiv:1803.00933)."""

from __future__ import annotations

from dataclasses import dataclass

from rillflow.algorithms import apex, ddpg
from rillflow.algorithms.ddpg import modules, noisy, update
from rillflow.flows.flow import Flow
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.distributed_replay import DistributedReplayConfig
from rillflow.learning.prepare import flat_rows
from rillflow.learning.results import TrainStats
from rillflow.policies.exploration_schedules import graded
from rillflow.policies.explorers import Explorer
from rillflow.rl.rollouts import Rollouts
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(ddpg.Config, DistributedReplayConfig):
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
    weights_every: int = 1

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if self.exploration_noise > 1:
            wrong.append(
                "exploration_noise is that of the first worker, of which others have powers, so it "
                f"must be at most 1, got {self.exploration_noise!r}"
            )
        return wrong


def explorer(cfg: Config) -> Explorer:
    """Noise of a size of its own for each worker, after steps that are uniformly random."""
    return noisy(cfg, graded(cfg.exploration_noise))


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Ape-X's plan: rollouts into replay actors, a learner of its own, priorities back."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    return apex.plan(rollouts, workers, cfg)


APEX_DDPG = Algorithm(
    "apex_ddpg",
    Config,
    modules,
    update,
    plan,
    prepare=flat_rows,
    explorer=explorer,
    tuned=ddpg.TUNED,
)
