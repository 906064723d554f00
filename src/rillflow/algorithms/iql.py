"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rillflow.flows.flow import Flow
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import above_zero
from rillflow.learning.figures import td_figures
from rillflow.learning.offline_config import OfflineConfig
from rillflow.learning.prepare import flat_rows
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.modules import Modules, actor_critic, moving_average, q_of_action
from rillflow.policies.spec import PolicySpec
from rillflow.policies.target_networks import Polyak
from rillflow.rl.dataset_worker import DatasetWorker
from rillflow.rl.rollouts import Rollouts, bulk_sync
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(OfflineConfig):
    """Settings of IQL."""

    env: Any = "Pendulum-v1"
    eval_every: int | None = 500_000
    hidden: tuple[int, ...] = (256, 256)
    activation: str = "relu"
    lr: float = 3e-4
    expectile: float = 0.7
    """which expectile of what actions are worth the value is: towards 1 that of the best"""
    beta: float = 3.0
    """how much more better actions count: exp(beta * advantage / its usual size)"""
    largest_weight: float = 100.0
    """of one action"""
    norm_rate: float = 0.01
    """how far the usual size of advantages follows that of a batch"""
    tau: float = 0.005
    """how far targets follow in an update"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems() + above_zero(self, "largest_weight")
        if not 0 < self.expectile < 1:
            wrong.append(f"expectile must be between 0 and 1, got {self.expectile!r}")
        if not self.beta >= 0:
            wrong.append(f"beta must be 0 or above, got {self.beta!r}")
        for name in ("norm_rate", "tau"):
            if not 0 < getattr(self, name) <= 1:
                wrong.append(f"{name} must be above 0 and at most 1, got {getattr(self, name)!r}")
        return wrong


TUNED: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {
        "hidden": (64, 64),
        "lr": 3e-3,
        "final_lr": 1e-5,
        "lr_updates": 5000,
        "tau": 0.02,
        "gamma": 0.95,
        "expectile": 0.9,
        "beta": 1.0,
    }
}
"""settings for environments that the defaults do not suit"""

CRITICS_ERRORS = 2.0
"""what critics are wrong by, times this, is the least size of advantages: where all actions of the
data are as good, advantages are such errors, and nothing is to be made of them"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """A policy with the value of the state beside it, two critics, the usual size of advantages."""
    return Modules(
        policy=actor_critic(spec),
        q=q_of_action(spec, copies=2),
        advantage_size=moving_average(),
        acts="policy",
        targets={"q": Polyak(cfg.tau)},
    )


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """Values above most of what the data's actions are worth; the policy; the critics."""
    after = m.frozen.policy.values(rows.next_obs)
    target = losses.td_target(rows.rewards, rows.discount, after)
    q = m.q(rows.obs, rows.actions)
    q_loss = losses.td_loss(q, target)

    logp, entropy, values = m.policy.evaluate(rows.obs, rows.actions)
    worth = losses.lowest(m.target.q(rows.obs, rows.actions))
    advantages = worth - values.detach()
    # q_loss is the mean square of what each of the two critics is wrong by
    square = losses.mean(advantages**2) + CRITICS_ERRORS**2 * q_loss.detach()
    size = m.advantage_size.follow(square, cfg.norm_rate) ** 0.5
    weights = losses.advantage_weights(advantages / (size + 1e-8), cfg.beta, cfg.largest_weight)
    imitation = losses.policy_gradient_loss(logp, weights)
    value = losses.expectile_loss(values, worth, cfg.expectile)
    stats = {"policy_loss": imitation, "value_loss": value, "weight": losses.mean(weights)}
    stats["entropy"] = losses.entropy_bonus(entropy.detach())
    yield Step(imitation + value, trains="policy", stats=stats)

    yield Step(q_loss, trains="q", stats={"q_loss": q_loss, **td_figures(q, target, rows)})


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rows that all workers read, a few optimiser steps on each."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    return bulk_sync(rollouts).for_each(TrainOneStep(workers))


IQL = Algorithm(
    "iql", Config, modules, update, plan, prepare=flat_rows, tuned=TUNED, worker=DatasetWorker
)
