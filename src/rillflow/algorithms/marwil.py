"""Monotonic advantage re-weighted imitation learning (Wang et al. 2018, NeurIPS)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rillflow.flows.flow import Flow
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import above_zero
from rillflow.learning.offline_config import OfflineConfig
from rillflow.learning.prepare import flat_rows
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.modules import Modules, actor_critic, moving_average
from rillflow.policies.spec import PolicySpec
from rillflow.rl.dataset_worker import DatasetWorker
from rillflow.rl.rollouts import Rollouts, bulk_sync
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(OfflineConfig):
    """Settings of MARWIL."""

    n_step: int = 1000
    """steps over which rewards are summed, or to the end of the episode; a value stands for what
    follows, also where an episode was truncated"""
    beta: float = 2.0
    """how much more better actions count: exp(beta * advantage / its usual size); 0: as in BC"""
    largest_weight: float = 20.0
    """of one action"""
    norm_rate: float = 0.01
    """how far the usual sizes of returns and of advantages follow those of a batch"""
    vf_loss_coef: float = 1.0
    """weight of the value loss"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems() + above_zero(self, "largest_weight")
        if not 0 < self.norm_rate <= 1:
            wrong.append(f"norm_rate must be above 0 and at most 1, got {self.norm_rate!r}")
        if not self.beta >= 0:
            wrong.append(f"beta must be 0 or above, got {self.beta!r}")
        return wrong


TUNED: dict[str, dict[str, Any]] = {"CartPole-v1": {"final_lr": 1e-5, "lr_updates": 2000}}
"""settings for environments that the defaults do not suit"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """One network that acts and values, and two sizes, squared, by which rewards have no unit."""
    return Modules(
        policy=actor_critic(spec),
        return_size=moving_average(),
        advantage_size=moving_average(),
        acts="policy",
    )


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """What was done becomes likely, all the more the better it went."""
    size = m.return_size.follow(losses.mean(rows.rewards**2), cfg.norm_rate) ** 0.5
    after = m.frozen.policy.values(rows.next_obs)
    target = losses.td_target(rows.rewards / (size + _LEAST), rows.discount, after)
    logp, entropy, values = m.policy.evaluate(rows.obs, rows.actions)
    advantages = target - values.detach()
    spread = m.advantage_size.follow(losses.mean(advantages**2), cfg.norm_rate) ** 0.5
    weights = losses.advantage_weights(advantages / (spread + _LEAST), cfg.beta, cfg.largest_weight)
    imitation = losses.policy_gradient_loss(logp, weights)
    value = losses.value_loss(values, target)
    stats = {
        "policy_loss": imitation,
        "value_loss": value,
        "entropy": losses.entropy_bonus(entropy.detach()),
        "weight": losses.mean(weights),
        "return_size": size,
    }
    yield Step(imitation + cfg.vf_loss_coef * value, trains="policy", stats=stats)


_LEAST = 1e-8


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rows that all workers read, a few optimiser steps on each."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    return bulk_sync(rollouts).for_each(TrainOneStep(workers))


MARWIL = Algorithm(
    "marwil", Config, modules, update, plan, prepare=flat_rows, tuned=TUNED, worker=DatasetWorker
)
