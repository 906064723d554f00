"""Vanilla policy gradient, REINFORCE (Williams 1992)."""

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
    """Settings of PG."""

    lr: float = 4e-3
    num_envs_per_worker: int = 16
    rollout_fragment_length: int = 64
    train_batch_size: int = 4096
    """least rows per training batch, with those that only reset an environment"""
    vf_loss_coef: float = 0.5
    """weight of the loss of the baseline"""


TUNED: dict[str, dict[str, Any]] = {
    # four times as many updates: each batch still holds whole episodes of the first policies
    "CartPole-v1": {"num_envs_per_worker": 8, "train_batch_size": 1024},
    "CartPole-hidden-velocity": {
        "memory": "lstm",
        "memory_size": 64,
        "hidden": (64,),
        "num_envs_per_worker": 8,
        "rollout_fragment_length": 32,
        "train_batch_size": 512,
        "lr": 1e-2,
        "gamma": 0.97,
        "vf_loss_coef": 0.01,  # the baseline shares the network, and its errors are large
    },
}
"""settings for environments that the defaults do not suit"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """One network that acts, and the baseline."""
    return Modules(policy=actor_critic(spec), acts="policy")


def prepare(m: Any, batch: Mapping[str, Any], cfg: Config) -> Rows:
    """Rows with whole discounted returns, less a learned baseline."""
    rows = actor_critic_rows(m.policy, batch, cfg.gamma, 1.0)
    rows["advantages"] = losses.standardized(rows.advantages, rows.get("valid"))
    return rows


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """The policy gradient, and the baseline's own loss."""
    logp, entropy, values = m.policy.evaluate_rows(rows)
    valid = rows.get("valid")  # of sequences, where not all rows are steps
    gradient = losses.policy_gradient_loss(logp, rows.advantages, valid)
    value = losses.value_loss(values, rows.targets, valid)
    bonus = losses.entropy_bonus(entropy.detach(), valid)
    stats = {"policy_loss": gradient, "value_loss": value, "entropy": bonus}
    yield Step(gradient + cfg.vf_loss_coef * value, trains="policy", stats=stats)


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts, joined to a training batch, one optimiser step each."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    batches = bulk_sync(rollouts).combine(ConcatBatches(cfg.train_batch_size))
    return batches.for_each(TrainOneStep(workers))


PG = Algorithm("pg", Config, modules, update, plan, prepare=prepare, tuned=TUNED, recurrent=True)
