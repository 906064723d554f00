"""Vanilla policy gradient, REINFORCE (Williams 1992)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rillflow.experience.batch import Array
from rillflow.flows.flow import Flow
from rillflow.learning import analytic
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.postprocess import Rows, actor_critic_rows, standardized
from rillflow.learning.results import Loss, TrainStats
from rillflow.rl.rollouts import ConcatBatches, Rollouts, bulk_sync
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """Settings of PG."""

    lr: float = 4e-3
    num_envs_per_worker: int = 16
    rollout_fragment_length: int = 64
    train_batch_size: int = 4096
    """least rows per training batch, with those that only reset an environment"""
    vf_loss_coef: float = 0.5
    """weight of the loss of the baseline"""


def postprocess(policy: Any, batch: Rows, cfg: Config) -> Rows:
    """Rows with whole discounted returns, less a learned baseline."""
    rows = actor_critic_rows(policy, batch, cfg.gamma, 1.0)
    rows["advantages"] = standardized(rows["advantages"])
    return rows


def loss(policy: Any, rows: Rows, cfg: Config) -> Loss:
    """The policy gradient, and the baseline's own loss."""
    from rillflow.learning import losses

    logp, entropy, values = policy.evaluate(rows["obs"], rows["actions"])
    gradient = losses.policy_gradient_loss(logp, rows["advantages"])
    value = losses.value_loss(values, rows["targets"])
    stats = {"policy_loss": gradient, "value_loss": value, "entropy": losses.entropy_bonus(entropy)}
    total = gradient + cfg.vf_loss_coef * value
    return Loss(total, {name: figure.detach() for name, figure in stats.items()})


def numpy_postprocess(
    network: analytic.Network, batch: Mapping[str, Array], cfg: Config
) -> analytic.Rows:
    """As `postprocess`, in NumPy."""
    rows = analytic.actor_critic_rows(network, batch, cfg.gamma, 1.0)
    rows["advantages"] = analytic.standardized(rows["advantages"])
    return rows


def numpy_loss(network: analytic.Network, rows: analytic.Rows, cfg: Config) -> dict[str, Any]:
    """As `loss`, in NumPy; it leaves the gradient in the network."""
    logp, entropy, values = network.evaluate(rows["obs"], rows["actions"])
    policy, d_logp = analytic.policy_gradient_loss(logp, rows["advantages"])
    value, d_values = analytic.value_loss(values, rows["targets"])
    network.backward(d_logp, 0.0, cfg.vf_loss_coef * d_values)
    return {"policy_loss": policy, "value_loss": value, "entropy": entropy.mean()}


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts, joined to a training batch, one optimiser step each."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    batches = bulk_sync(rollouts).combine(ConcatBatches(cfg.train_batch_size))
    return batches.for_each(TrainOneStep(workers))
