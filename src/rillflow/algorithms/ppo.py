"""Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

import os
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
    """Settings of PPO."""

    lr: float = 2e-3
    train_batch_size: int = 2048
    """least rows per training batch, with those that only reset an environment"""
    num_sgd_iter: int = 5
    """passes over each batch"""
    sgd_minibatch_size: int = 256
    """rows per optimiser step"""
    lambda_: float = 0.95
    """how far advantages look ahead (GAE)"""
    clip_param: float = 0.2
    """how far the policy may move per batch"""
    vf_loss_coef: float = 0.5
    """weight of the value loss"""
    entropy_coef: float = 0.0
    """weight of the entropy bonus"""


TUNED = {
    "Acrobot-v1": {"lr": 1e-3},  # else some seeds are long without a first success
    "MountainCar-v0": {"scale_observations": True, "entropy_coef": 0.01, "lambda_": 0.98},
    "MountainCarContinuous-v0": {  # standing still costs nothing: act at random until it pays
        "scale_observations": True,
        "num_envs_per_worker": 64,
        "lr": 1e-3,
        "gamma": 0.999,
        "entropy_coef": 0.2,
    },
    "Pendulum-v1": {
        "num_envs_per_worker": 5,
        "rollout_fragment_length": 200,  # a whole episode
        "train_batch_size": 1900,
        "num_sgd_iter": 10,
        "lr": 1e-3,
        "gamma": 0.9,
        "grad_clip": None,
        "activation": "relu",
    },
    "atari": {
        "num_sgd_iter": 4,
        "num_learner_threads": len(os.sched_getaffinity(0)),  # workers wait while it learns
        "lr": 2.5e-4,
        "clip_param": 0.1,
        "entropy_coef": 0.01,
    },
}
"""settings for environments that the defaults do not suit"""


def postprocess(policy: Any, batch: Rows, cfg: Config) -> Rows:
    """Rows with standardised advantages."""
    rows = actor_critic_rows(policy, batch, cfg.gamma, cfg.lambda_)
    rows["advantages"] = standardized(rows["advantages"])
    return rows


def loss(policy: Any, rows: Rows, cfg: Config) -> Loss:
    """The clipped surrogate, the value loss and the entropy bonus."""
    from rillflow.learning import losses

    logp, entropy, values = policy.evaluate(rows["obs"], rows["actions"])
    surrogate = losses.clipped_surrogate_loss(
        logp, rows["logp"], rows["advantages"], cfg.clip_param
    )
    value = losses.value_loss(values, rows["targets"])
    bonus = losses.entropy_bonus(entropy)
    total = surrogate + cfg.vf_loss_coef * value - cfg.entropy_coef * bonus
    stats = {
        "policy_loss": surrogate.detach(),
        "value_loss": value.detach(),
        "entropy": bonus.detach(),
        "kl": losses.approximate_kl(rows["logp"], logp.detach()),
    }
    return Loss(total, stats)


def numpy_postprocess(
    network: analytic.Network, batch: Mapping[str, Array], cfg: Config
) -> analytic.Rows:
    """As `postprocess`, in NumPy."""
    rows = analytic.actor_critic_rows(network, batch, cfg.gamma, cfg.lambda_)
    rows["advantages"] = analytic.standardized(rows["advantages"])
    return rows


def numpy_loss(network: analytic.Network, rows: analytic.Rows, cfg: Config) -> dict[str, Any]:
    """As `loss`, in NumPy; it leaves the gradient in the network."""
    logp, entropy, values = network.evaluate(rows["obs"], rows["actions"])
    surrogate, d_logp = analytic.clipped_surrogate_loss(
        logp, rows["logp"], rows["advantages"], cfg.clip_param
    )
    value, d_values = analytic.value_loss(values, rows["targets"])
    network.backward(d_logp, -cfg.entropy_coef / len(logp), cfg.vf_loss_coef * d_values)
    return {
        "policy_loss": surrogate,
        "value_loss": value,
        "entropy": entropy.mean(),
        "kl": analytic.approximate_kl(rows["logp"], logp),
    }


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts, joined to a training batch, learned in minibatches."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    batches = bulk_sync(rollouts).combine(ConcatBatches(cfg.train_batch_size))
    return batches.for_each(
        TrainOneStep(
            workers, num_sgd_iter=cfg.num_sgd_iter, sgd_minibatch_size=cfg.sgd_minibatch_size
        )
    )
