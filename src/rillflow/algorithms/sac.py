"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1801.01290 and arXiv:1812.05905)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.figures import td_figures
from rillflow.learning.prepare import flat_rows
from rillflow.learning.replay_config import ContinuousConfig
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.explorers import Explorer, Sampled
from rillflow.policies.modules import (
    Modules,
    Optimiser,
    Polyak,
    q_of_action,
    scalar,
    squashed_gaussian,
)
from rillflow.policies.spec import PolicySpec
from rillflow.rl.replay import ParallelReplay, StoreToReplayBuffer, create_replay_actors
from rillflow.rl.rollouts import Rollouts, bulk_sync
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(ContinuousConfig):
    """Settings of SAC."""

    READ_ONCE: ClassVar[tuple[str, ...]] = ("initial_alpha",)

    initial_alpha: float = 1.0
    """what a bit of entropy is worth at first; it is learned"""
    alpha_lr: float | None = None
    """learning rate of that; None: `lr`"""
    target_entropy: float | None = None
    """entropy that it is learned for; None: minus the numbers of an action"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if not 0 < self.initial_alpha < math.inf:
            wrong.append(f"initial_alpha must be above 0, got {self.initial_alpha!r}")
        if self.alpha_lr is not None and not self.alpha_lr > 0:
            wrong.append(f"alpha_lr must be above 0, or None, got {self.alpha_lr!r}")
        return wrong


TUNED: dict[str, dict[str, Any]] = {"Pendulum-v1": {"hidden": (64, 64), "lr": 1e-3, "tau": 0.01}}
"""settings for environments that the defaults do not suit"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """An actor, two critics with targets, and the worth of entropy."""
    return Modules(
        actor=squashed_gaussian(spec),
        q=q_of_action(spec, copies=2),
        log_alpha=scalar(math.log(cfg.initial_alpha)),
        acts="actor",
        targets={"q": Polyak(cfg.tau)},
        optimisers={"log_alpha": Optimiser(lr=cfg.alpha_lr)},
    )


def explorer(cfg: Config) -> Explorer:
    """Actions drawn from the policy, after some that are uniformly random."""
    return Sampled(random_first=cfg.learning_starts)


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """The critics against the soft value of what followed; the actor; the worth of entropy."""
    alpha = m.log_alpha().exp().detach()
    next_actions, next_logp = m.frozen.actor.sample(rows.next_obs)
    next_q = losses.lowest(m.target.q(rows.next_obs, next_actions))
    target = losses.td_target(rows.rewards, rows.discount, next_q - alpha * next_logp)
    q = m.q(rows.obs, rows.actions)
    q_loss = losses.td_loss(q, target, rows.get("weights"))
    yield Step(q_loss, trains="q", stats={"q_loss": q_loss, **td_figures(q, target, rows)})

    actions, logp = m.actor.sample(rows.obs)
    actor_loss = losses.mean(alpha * logp - losses.lowest(m.q(rows.obs, actions)))
    yield Step(actor_loss, trains="actor", stats={"actor_loss": actor_loss})

    wanted = -m.actor.spec.actions.width if cfg.target_entropy is None else cfg.target_entropy
    surplus = losses.mean(logp.detach() + wanted)
    stats = {"alpha": alpha, "entropy": -losses.mean(logp.detach())}
    yield Step(m.log_alpha() * -surplus, trains="log_alpha", stats=stats)


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts into replay; batches from replay are learned, so many rows per step."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    replay = create_replay_actors(cfg, placement="driver")
    store_op = bulk_sync(rollouts).for_each(StoreToReplayBuffer(replay))
    replay_op = ParallelReplay(replay).gather_sync().flatten().for_each(TrainOneStep(workers))
    return Concurrently([store_op, replay_op], output_indexes=[1], weights=[1, cfg.train_turns])


SAC = Algorithm(
    "sac", Config, modules, update, plan, prepare=flat_rows, explorer=explorer, tuned=TUNED
)
