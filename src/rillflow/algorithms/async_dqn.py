"""Asynchronous n-step q learning (Mnih et al. 2016, arXiv:1602.01783).

The plan of A3C with the loss of DQN: no replay, gradients computed inside the workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rillflow.algorithms.dqn import STEADY
from rillflow.experience.batch import STATE, SampleBatch
from rillflow.flows.flow import Flow
from rillflow.flows.parallel import ParallelFlow
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.prepare import n_step_rows
from rillflow.learning.q_learning import QNetworkConfig, modules, update, with_next_q
from rillflow.learning.q_sequences import sequence_rows
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows
from rillflow.policies.exploration_schedules import Place
from rillflow.policies.explorers import EpsilonGreedy, Explorer
from rillflow.rl.replay import UpdateTargetNetwork
from rillflow.rl.train import ApplyGradients, ComputeGradients
from rillflow.rl.workers import Workers, bind


@dataclass(frozen=True, kw_only=True)
class Config(QNetworkConfig):
    """Settings of asynchronous DQN.

    Without replay it is the number of workers and environments that makes rows differ from each
    other; small fragments make many optimiser steps of them. Somebody has to go on failing: where
    all workers act as well as they can, nothing tells any longer what not to do, and it is
    unlearned. A target network that follows within some thirty gradients, and a learning rate that
    falls to next to nothing, make the last policy as good as the best.
    """

    num_workers: int = 4
    num_envs_per_worker: int = 8
    rollout_fragment_length: int = 4
    hidden: tuple[int, ...] = (128, 128)
    target_network_update_freq: int = 1000
    final_lr: float | None = 1e-5
    lr_updates: int = 9000
    double_q: bool = True
    n_step: int = 8
    epsilon_timesteps: int = 50_000
    final_epsilon: float = 0.4
    """how often the first worker acts at random in the end; the last one does at its square"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if self.noisy:
            wrong.append(
                "noisy=True needs one learner, which draws the noise of each update, and here "
                "every worker computes gradients: leave it out, or use dqn"
            )
        return wrong


TUNED: dict[str, dict[str, Any]] = {
    "memory": {"rollout_fragment_length": 32},  # a gradient looks back as far as that
    "CartPole-v1": STEADY,
}
"""settings for what the defaults do not suit"""


def explorer(cfg: Config) -> Explorer:
    """A rate that falls in a line from the first one to one of the worker's own."""

    def rate(place: Place, steps: int) -> float:
        if cfg.epsilon is not None:
            return float(cfg.epsilon ** (1 + place.worker / max(1, place.workers - 1)))
        done = min(1.0, steps * place.workers / max(1, cfg.epsilon_timesteps))
        last = cfg.final_epsilon ** (1 + place.worker / max(1, place.workers - 1))
        return float(cfg.initial_epsilon + done * (last - cfg.initial_epsilon))

    return EpsilonGreedy(rate)


def prepare(m: Any, batch: Mapping[str, Any], cfg: Config) -> Rows:
    """Rows that each look `n_step` steps ahead, or to the end of the episode."""
    if STATE in batch:
        return sequence_rows(m, batch, cfg)
    return with_next_q(m, n_step_rows(batch, cfg.n_step, cfg.gamma), cfg)


def plan(
    rollouts: ParallelFlow[SampleBatch], workers: Workers, cfg: Config | None = None
) -> Flow[TrainStats]:
    """Gradients computed in the workers, applied as they come, answered with new weights."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    grads = rollouts.par_for_each(ComputeGradients()).gather_async()
    return grads.for_each(ApplyGradients(workers)).for_each(
        UpdateTargetNetwork(workers, cfg.target_network_update_freq, in_workers=True)
    )


ASYNC_DQN = Algorithm(
    "async_dqn",
    Config,
    modules,
    update,
    plan,
    prepare=prepare,
    explorer=explorer,
    tuned=TUNED,
    recurrent=True,
)
