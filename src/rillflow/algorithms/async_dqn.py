"""Asynchronous n-step q learning (Mnih et al. 2016, arXiv:1602.01783).

The plan of A3C with the loss of DQN: no replay, gradients computed inside the workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rillflow.experience.batch import Array, SampleBatch
from rillflow.experience.transitions import transitions
from rillflow.flows.flow import Flow
from rillflow.flows.parallel import ParallelFlow
from rillflow.learning import analytic
from rillflow.learning.postprocess import Rows
from rillflow.learning.q_learning import QNetworkConfig, loss, numpy_loss
from rillflow.learning.results import TrainStats
from rillflow.rl.replay import UpdateTargetNetwork
from rillflow.rl.train import ApplyGradients, ComputeGradients
from rillflow.rl.workers import Workers, bind

__all__ = ["Config", "loss", "numpy_loss", "numpy_postprocess", "plan", "postprocess"]


@dataclass(frozen=True, kw_only=True)
class Config(QNetworkConfig):
    """Settings of asynchronous DQN.

    Without replay it is the number of workers and environments that makes rows differ from each
    other; small fragments make many optimiser steps of them.
    """

    num_workers: int = 4
    num_envs_per_worker: int = 4
    hidden: tuple[int, ...] = (128, 128)
    target_network_update_freq: int = 1000
    double_q: bool = True
    n_step: int = 8
    epsilon_timesteps: int = 50_000
    final_epsilon: float = 0.1
    """how often the first worker acts at random in the end; the last one does at its square"""

    def exploration(self, worker: int, steps: int) -> float:
        """A line from the first rate to one of the worker's own."""
        done = min(1.0, steps * max(1, self.num_workers) / max(1, self.epsilon_timesteps))
        last = self.final_epsilon ** (1 + worker / max(1, self.num_workers - 1))
        return float(self.initial_epsilon + done * (last - self.initial_epsilon))


def postprocess(policy: Any, batch: Rows, cfg: Config) -> Rows:
    """Rows that each look `n_step` steps ahead, or to the end of the fragment."""
    import torch

    columns = {name: column.cpu().numpy() for name, column in batch.items()}
    rows = transitions(SampleBatch(columns), cfg.n_step, cfg.gamma)
    return {name: torch.from_numpy(column).to(policy.device) for name, column in rows.items()}


def numpy_postprocess(
    network: analytic.Network, batch: Mapping[str, Array], cfg: Config
) -> analytic.Rows:
    """As `postprocess`, in NumPy."""
    return transitions(SampleBatch(batch), cfg.n_step, cfg.gamma)


def plan(
    rollouts: ParallelFlow[SampleBatch], workers: Workers, cfg: Config | None = None
) -> Flow[TrainStats]:
    """Gradients computed in the workers, applied as they come, answered with new weights."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    grads = rollouts.par_for_each(ComputeGradients()).gather_async()
    return grads.for_each(ApplyGradients(workers)).for_each(
        UpdateTargetNetwork(workers, cfg.target_network_update_freq, in_workers=True)
    )
