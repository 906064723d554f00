"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1801.01290 and arXiv:1812.05905).

Actions are continuous, and one is drawn wherever a value is needed; or they are discrete, and the
expectation is taken over all of them (Christodoulou 2019, arXiv:1910.07207).
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, ClassVar

from rillflow.errors import BuildError
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
    categorical,
    q_of_action,
    q_values,
    scalar,
    squashed_gaussian,
)
from rillflow.policies.spec import PolicySpec
from rillflow.policies.target_networks import Polyak
from rillflow.rl.replay import (
    ParallelReplay,
    StoreToReplayBuffer,
    UpdateReplayPriorities,
    create_replay_actors,
)
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
    """entropy that it is learned for; None: minus the numbers of an action, or of discrete actions
    a part of the entropy of a uniform choice among those that are allowed"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if not 0 < self.initial_alpha < math.inf:
            wrong.append(f"initial_alpha must be above 0, got {self.initial_alpha!r}")
        if self.alpha_lr is not None and not self.alpha_lr > 0:
            wrong.append(f"alpha_lr must be above 0, or None, got {self.alpha_lr!r}")
        return wrong


PART = 0.5
"""of the entropy of a uniform choice, which discrete actions are to keep"""

TUNED: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {"hidden": (64, 64), "lr": 1e-3, "tau": 0.01},
    "CartPole-v1": {
        "hidden": (64, 64),
        "activation": "tanh",
        "lr": 2e-3,
        "final_lr": 1e-4,
        "lr_updates": 40_000,
        "tau": 0.02,
        "n_step": 3,
        "train_batch_size": 64,
        "training_intensity": 32.0,
    },
    "atari": {
        "buffer_size": 50_000,
        "learning_starts": 10_000,
        "train_batch_size": 64,
        "training_intensity": 16.0,
        "num_learner_threads": len(os.sched_getaffinity(0)),  # nobody samples while it learns
    },
}
"""settings for environments that the defaults do not suit"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """An actor, two critics with targets, and the worth of entropy."""
    follow = Polyak(cfg.tau)
    more: dict[str, Any] = {
        "log_alpha": scalar(math.log(cfg.initial_alpha)),
        "acts": "actor",
        "optimisers": {"log_alpha": Optimiser(lr=cfg.alpha_lr)},
    }
    if spec.actions.kind == "continuous":
        q = q_of_action(spec, copies=2)
        return Modules(actor=squashed_gaussian(spec), q=q, targets={"q": follow}, **more)
    actor, values = categorical(spec), q_values(spec)
    most = math.log(spec.actions.width)
    if cfg.target_entropy is not None and not 0 <= cfg.target_entropy < most:
        raise BuildError(
            f"target_entropy of {spec.action_space} must be at least 0 and below that of a uniform "
            f"choice, {most:.3f}, got {cfg.target_entropy!r}: leave it out, and it is {PART:g} "
            "of that"
        )
    targets = {"q": follow, "twin": follow}
    return Modules(actor=actor, q=values, twin=values, targets=targets, **more)


def explorer(cfg: Config) -> Explorer:
    """Actions drawn from the policy, after some that are uniformly random."""
    return Sampled(random_first=cfg.learning_starts)


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """The critics against the soft value of what followed; the actor; the worth of entropy."""
    alpha = m.log_alpha().exp().detach()
    next_value, _ = soft_values(m.frozen.actor, m.target, rows.next_obs, alpha)
    target = losses.td_target(rows.rewards, rows.discount, next_value)
    estimates = q_of_taken(m, rows)
    q_loss = sum(losses.td_loss(q, target, rows.get("weights")) for q in estimates)
    stats = {"q_loss": q_loss, **td_figures(estimates[0], target, rows)}
    yield Step(q_loss, trains=tuple(m.targets), stats=stats)

    value, entropy = soft_values(m.actor, m, rows.obs, alpha)
    actor_loss = -losses.mean(value)
    yield Step(actor_loss, trains="actor", stats={"actor_loss": actor_loss})

    entropy = entropy.detach()
    surplus = losses.mean(wanted_entropy(m.actor, rows.obs, cfg) - entropy)
    stats = {"alpha": alpha, "entropy": losses.mean(entropy)}
    yield Step(m.log_alpha() * -surplus, trains="log_alpha", stats=stats)


def soft_values(actor: Any, critics: Any, obs: Any, alpha: Any) -> tuple[Any, Any]:
    """Values of observations by the lower critic, what entropy is worth included; and entropies."""
    if actor.spec.actions.kind == "continuous":  # by one action, drawn for each
        actions, logp = actor.sample(obs)
        return losses.lowest(critics.q(obs, actions)) - alpha * logp, -logp
    logits = actor.logits(obs)
    q = losses.minimum(critics.q.q_values(obs), critics.twin.q_values(obs))
    return losses.soft_value(logits, q, alpha), losses.entropy_categorical(logits)


def q_of_taken(m: Any, rows: Rows) -> list[Any]:
    """What the critics think of the actions taken: both as [2, N], or [N] by each of the two."""
    if m.actor.spec.actions.kind == "continuous":
        return [m.q(rows.obs, rows.actions)]
    return [losses.q_of_taken(q.q_values(rows.obs), rows.actions) for q in (m.q, m.twin)]


def wanted_entropy(actor: Any, obs: Any, cfg: Config) -> Any:
    """What the actor's mean entropy is to become: one number, or one for each observation [N]."""
    if cfg.target_entropy is not None:
        return cfg.target_entropy
    if actor.spec.actions.kind == "continuous":
        return -actor.spec.actions.width
    mask = actor.action_mask(obs)
    if mask is None:
        return PART * math.log(actor.spec.actions.width)
    return PART * losses.uniform_entropy(mask)


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts into replay; batches from replay are learned, so many rows per step."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    replay = create_replay_actors(cfg, placement="driver")
    store_op = bulk_sync(rollouts).for_each(StoreToReplayBuffer(replay))
    replay_op = ParallelReplay(replay).gather_sync().flatten().for_each(TrainOneStep(workers))
    if cfg.prioritized_replay:
        replay_op = replay_op.for_each(UpdateReplayPriorities())
    return Concurrently([store_op, replay_op], output_indexes=[1], weights=[1, cfg.train_turns])


SAC = Algorithm(
    "sac", Config, modules, update, plan, prepare=flat_rows, explorer=explorer, tuned=TUNED
)
