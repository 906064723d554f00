"""Synchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    """Settings of A2C."""

    lr: float = 3e-3
    num_envs_per_worker: int = 16
    rollout_fragment_length: int = 16
    train_batch_size: int = 512
    """least rows per training batch, with those that only reset an environment"""
    lambda_: float = 0.95
    """how far advantages look ahead (GAE)"""
    vf_loss_coef: float = 0.5
    """weight of the value loss"""
    entropy_coef: float = 0.001
    """weight of the entropy bonus"""


TUNED: dict[str, dict[str, Any]] = {"memory": {"scale_rewards": None}}
"""settings for a policy that remembers: its critic shares the memory, and the errors of values in
the hundreds would leave the actor next to nothing of a gradient that is clipped"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """One network that acts and values."""
    return Modules(policy=actor_critic(spec), acts="policy")


def prepare(m: Any, batch: Mapping[str, Any], cfg: Config) -> Rows:
    """Rows with advantages."""
    return actor_critic_rows(m.policy, batch, cfg.gamma, cfg.lambda_)


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """Policy gradient with advantages, value loss, entropy bonus."""
    logp, entropy, values = m.policy.evaluate_rows(rows)
    valid = rows.get("valid")  # of sequences, where not all rows are steps
    gradient = losses.policy_gradient_loss(logp, rows.advantages, valid)
    value = losses.value_loss(values, rows.targets, valid)
    bonus = losses.entropy_bonus(entropy, valid)
    total = gradient + cfg.vf_loss_coef * value - cfg.entropy_coef * bonus
    stats = {"policy_loss": gradient, "value_loss": value, "entropy": bonus}
    yield Step(total, trains="policy", stats=stats)


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts, joined to a training batch, one optimiser step each."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    batches = bulk_sync(rollouts).combine(ConcatBatches(cfg.train_batch_size))
    return batches.for_each(TrainOneStep(workers))


A2C = Algorithm("a2c", Config, modules, update, plan, prepare=prepare, tuned=TUNED, recurrent=True)
