"""Asynchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rillflow.algorithms import a2c
from rillflow.experience.batch import SampleBatch
from rillflow.flows.flow import Flow
from rillflow.flows.parallel import ParallelFlow
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.results import TrainStats
from rillflow.rl.train import ApplyGradients, ComputeGradients
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(a2c.Config):
    """Settings of A3C: those of A2C, with larger fragments, as each is an update of its own."""

    num_envs_per_worker: int = 32
    rollout_fragment_length: int = 32

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if self.train_batch_size != a2c.Config.train_batch_size:
            wrong.append(
                f"train_batch_size={self.train_batch_size!r} is how much A2C collects for an "
                "update, and here every fragment is an update of its own: leave it out, or give "
                "rollout_fragment_length or num_envs_per_worker"
            )
        return wrong


TUNED: dict[str, dict[str, Any]] = {
    # more and smaller updates, of smaller values: errors of values are most of a gradient, and if
    # it is clipped they leave the actor little; see `amsgrad`, too
    "CartPole-v1": {
        "num_envs_per_worker": 16,
        "rollout_fragment_length": 8,
        "gamma": 0.98,
        "grad_clip": 5.0,
        "amsgrad": True,
    },
    "memory": {},  # not A2C's: rewards are scaled only if somebody says so
    # pictures take more memory, and longer to learn from
    "atari": {"num_envs_per_worker": 16, "rollout_fragment_length": 16},
}
"""settings for what the defaults do not suit"""


def plan(
    rollouts: ParallelFlow[SampleBatch], workers: AnyWorkers, cfg: a2c.Config | None = None
) -> Flow[TrainStats]:
    """Gradients computed in the workers, applied as they come, answered with new weights."""
    workers, _ = bind(a2c.Config, rollouts, workers, cfg)  # of either, or derived from either
    grads = rollouts.par_for_each(ComputeGradients()).gather_async()
    return grads.for_each(ApplyGradients(workers))


A3C = Algorithm(
    "a3c",
    Config,
    a2c.modules,
    a2c.update,
    plan,
    prepare=a2c.prepare,
    tuned=TUNED,
    recurrent=True,
)
