"""Conservative Q-learning (Kumar et al. 2020, arXiv:2006.04779): SAC that trusts only the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from rillflow.algorithms import sac
from rillflow.flows.flow import Flow
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import above_zero, below_one
from rillflow.learning.offline_config import OfflineConfig
from rillflow.learning.prepare import flat_rows
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.modules import Modules, Optimiser, q_of_action, scalar, squashed_gaussian
from rillflow.policies.spec import PolicySpec
from rillflow.policies.target_networks import Polyak
from rillflow.rl.dataset_worker import DatasetWorker
from rillflow.rl.rollouts import Rollouts, bulk_sync
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(OfflineConfig):
    """Settings of CQL."""

    READ_ONCE: ClassVar[tuple[str, ...]] = ("gamma", "initial_alpha")

    env: Any = "Pendulum-v1"
    eval_every: int | None = 500_000
    hidden: tuple[int, ...] = (256, 256)
    activation: str = "relu"
    lr: float = 3e-4
    conservative_weight: float = 5.0
    """weight of what actions that are not in the data are worth above those that are; 0: SAC"""
    sampled_actions: int = 4
    """actions that stand for all others, each from three places: anywhere, the policy here, and the
    policy at the next observation"""
    actor_lr: float | None = None
    """learning rate of the actor; None: `lr`"""
    initial_alpha: float = 1.0
    """what a bit of entropy is worth at first; it is learned"""
    alpha_lr: float | None = None
    """learning rate of that; None: `lr`"""
    target_entropy: float | None = None
    """entropy that it is learned for; None: minus the numbers of an action"""
    tau: float = 0.005
    """how far targets follow in an update"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems() + below_one(self, "sampled_actions")
        wrong += above_zero(self, "initial_alpha", "actor_lr", "alpha_lr")
        if not self.conservative_weight >= 0:
            wrong.append(
                f"conservative_weight must be 0 or above, got {self.conservative_weight!r}"
            )
        if not 0 < self.tau <= 1:
            wrong.append(f"tau must be above 0 and at most 1, got {self.tau!r}")
        return wrong


TUNED: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {
        "hidden": (64, 64),
        "lr": 2e-3,
        "final_lr": 1e-4,
        "lr_updates": 4000,
        "tau": 0.02,
        "gamma": 0.95,
    }
}
"""settings for environments that the defaults do not suit"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """Those of SAC for continuous actions."""
    return Modules(
        actor=squashed_gaussian(spec),
        q=q_of_action(spec, copies=2),
        log_alpha=scalar(math.log(cfg.initial_alpha)),
        acts="actor",
        targets={"q": Polyak(cfg.tau)},
        optimisers={"actor": Optimiser(lr=cfg.actor_lr), "log_alpha": Optimiser(lr=cfg.alpha_lr)},
    )


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """SAC's steps, the first with the conservative term: critics hold what is unseen for little."""
    settings: Any = cfg  # what SAC's update reads of its settings is among these
    steps = sac.update(m, rows, settings)
    critics = next(steps)
    gap = conservatism(m, rows, cfg.sampled_actions)
    loss = critics.loss + cfg.conservative_weight * gap
    yield Step(loss, trains="q", stats={**critics.stats, "conservative_gap": gap})
    yield from steps


def conservatism(m: Any, rows: Rows, count: int) -> Any:
    """How much more actions from anywhere and of the policy are worth than those of the data."""
    here, there = (losses.repeated(obs, count) for obs in (rows.obs, rows.next_obs))
    actor, many = m.frozen.actor, 3 * count
    drawn = actor.uniform(len(here)), actor.sample(here), actor.sample(there)
    actions, logp = (reduce(losses.joined, parts) for parts in zip(*drawn, strict=True))
    q = m.q(losses.repeated(rows.obs, many), actions).reshape(2, many, len(rows.obs))
    likely = logp.reshape(many, len(rows.obs))
    return losses.conservative_loss(q, likely, m.q(rows.obs, rows.actions))


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rows that all workers read, a few optimiser steps on each."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    return bulk_sync(rollouts).for_each(TrainOneStep(workers))


CQL = Algorithm(
    "cql", Config, modules, update, plan, prepare=flat_rows, tuned=TUNED, worker=DatasetWorker
)
