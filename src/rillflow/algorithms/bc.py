"""Behaviour cloning: what was done in recorded data becomes likely (Pomerleau 1989)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rillflow.flows.flow import Flow
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.offline_config import OfflineConfig
from rillflow.learning.prepare import flat_rows
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.modules import Modules, actor_critic
from rillflow.policies.spec import PolicySpec
from rillflow.rl.dataset_worker import DatasetWorker
from rillflow.rl.rollouts import Rollouts, bulk_sync
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(OfflineConfig):
    """Settings of BC."""

    entropy_coef: float = 0.0
    """weight of the entropy bonus: above 0 the policy stays less certain than the data is"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        ahead = "n_step is about rewards, and bc looks at none: leave it out"
        return super().problems() + [ahead] * (self.n_step != 1)


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """One network that acts; nobody asks for its values."""
    return Modules(policy=actor_critic(spec), acts="policy")


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """The mean log-probability of what was done."""
    logp, entropy, _ = m.policy.evaluate(rows.obs, rows.actions)
    likelihood = losses.mean(logp)
    bonus = losses.entropy_bonus(entropy)
    stats = {"policy_loss": -likelihood, "entropy": bonus}
    yield Step(-likelihood - cfg.entropy_coef * bonus, trains="policy", stats=stats)


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rows that all workers read, a few optimiser steps on each."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    return bulk_sync(rollouts).for_each(TrainOneStep(workers))


BC = Algorithm("bc", Config, modules, update, plan, prepare=flat_rows, worker=DatasetWorker)
