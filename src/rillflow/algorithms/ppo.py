"""Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

from rillflow.flows.flow import Flow
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.prepare import actor_critic_rows
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.modules import Modules, actor_critic
from rillflow.policies.spec import PolicySpec
from rillflow.rl.rollouts import ConcatBatches, Rollouts, bulk_sync
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """Settings of PPO."""

    lr: float = 7e-4
    num_envs_per_worker: int = 8
    rollout_fragment_length: int = 128
    normalize_observations: bool | Literal["loosely"] | None = None
    scale_rewards: bool | None = None
    train_batch_size: int = 2048
    """least rows per training batch, with those that only reset an environment"""
    num_sgd_iter: int = 10
    """passes over each batch"""
    sgd_minibatch_size: int = 64
    """rows per optimiser step; minibatches are whole, what is left over sits out that pass"""
    lambda_: float = 0.95
    """how far advantages look ahead (GAE)"""
    clip_param: float = 0.2
    """how far the policy may move per batch"""
    vf_loss_coef: float = 0.5
    """weight of the value loss"""
    vf_clip_param: float | None = None
    """how far a value may move per batch before its loss no longer falls; None: as far as it is
    taken"""
    target_kl: float | None = None
    """the passes over a batch end when the policy has moved by more than 1.5 times this, measured
    as the KL divergence; None: they are all made"""
    entropy_coef: float = 0.0
    """weight of the entropy bonus"""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of a run with these settings."""
        size, a_round = self.sgd_minibatch_size, self.fragment_steps * max(1, self.num_workers)
        rows = a_round * ceil(self.train_batch_size / a_round)
        left = rows % size
        if size >= rows or 8 * left <= rows or self.remembers:
            return super().notes
        even = rows // ceil(rows / size)
        return (
            *super().notes,
            f"each pass over {rows:,} rows leaves out {left:,} of them, drawn anew: minibatches "
            f"are whole, and sgd_minibatch_size={even} would leave out {rows % even}",
        )

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if not self.clip_param > 0:
            wrong.append(f"clip_param must be above 0, got {self.clip_param!r}")
        return wrong


MANY: dict[str, Any] = {
    "num_envs_per_worker": 32,
    "rollout_fragment_length": 32,
    "num_sgd_iter": 5,
    "sgd_minibatch_size": 256,
    "lr": 2e-3,
    "normalize_observations": False,
    "scale_rewards": False,
}
"""many environments and few passes: fewest seconds where steps cost little and numbers are small"""

TUNED: dict[str, dict[str, Any]] = {
    "CartPole-v1": MANY,
    "Acrobot-v1": MANY | {"lr": 1e-3},  # else some seeds are long without a first success
    "MountainCar-v0": MANY | {"scale_observations": True, "entropy_coef": 0.01, "lambda_": 0.98},
    "MountainCarContinuous-v0": MANY  # standing still costs nothing: act at random until it pays
    | {
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
        "sgd_minibatch_size": 256,
        "lr": 1e-3,
        "gamma": 0.9,
        "grad_clip": None,
        "activation": "relu",
        "normalize_observations": False,
        "scale_rewards": False,
    },
    "atari": MANY
    | {
        "num_sgd_iter": 4,
        "num_learner_threads": len(os.sched_getaffinity(0)),  # workers wait while it learns
        "lr": 2.5e-4,
        "clip_param": 0.1,
        "entropy_coef": 0.01,
    },
    "atari-gpu": {
        "env_config": {"resumable": False},  # its games would cost a twentieth of the steps
        "num_learner_threads": 1,
        "sgd_minibatch_size": 1024,
        "lr": 5e-4,
    },
}
"""settings for environments that the defaults do not suit"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """One network that acts and values."""
    return Modules(policy=actor_critic(spec), acts="policy")


def prepare(m: Any, batch: Mapping[str, Any], cfg: Config) -> Rows:
    """Rows with standardised advantages."""
    clips = cfg.vf_clip_param is not None
    rows = actor_critic_rows(m.policy, batch, cfg.gamma, cfg.lambda_, with_values=clips)
    rows["advantages"] = losses.standardized(rows.advantages, rows.get("valid"))
    return rows


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """The clipped surrogate, the value loss and the entropy bonus."""
    logp, entropy, values = m.policy.evaluate_rows(rows)
    valid = rows.get("valid")  # of sequences, where not all rows are steps
    surrogate = losses.clipped_surrogate_loss(
        logp, rows.logp, rows.advantages, cfg.clip_param, valid
    )
    if cfg.vf_clip_param is None:
        value = losses.value_loss(values, rows.targets, valid)
    else:
        value = losses.clipped_value_loss(
            values, rows.values_before, rows.targets, cfg.vf_clip_param, valid
        )
    bonus = losses.entropy_bonus(entropy, valid)
    stats = {
        "policy_loss": surrogate,
        "value_loss": value,
        "entropy": bonus,
        "kl": losses.approximate_kl(rows.logp, logp.detach(), valid),
    }
    total = surrogate + cfg.vf_loss_coef * value - cfg.entropy_coef * bonus
    yield Step(total, trains="policy", stats=stats)


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts, joined to a training batch, learned in minibatches."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    batches = bulk_sync(rollouts).combine(ConcatBatches(cfg.train_batch_size))
    return batches.for_each(
        TrainOneStep(
            workers, num_sgd_iter=cfg.num_sgd_iter, sgd_minibatch_size=cfg.sgd_minibatch_size
        )
    )


PPO = Algorithm("ppo", Config, modules, update, plan, prepare=prepare, tuned=TUNED, recurrent=True)
