"""Deep deterministic policy gradients (Lillicrap et al. 2015, arXiv:1509.02971)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.figures import td_figures
from rillflow.learning.prepare import flat_rows
from rillflow.learning.replay_config import ContinuousConfig
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.exploration_schedules import Scale
from rillflow.policies.explorers import Explorer, Gaussian, OrnsteinUhlenbeck
from rillflow.policies.modules import Modules, Optimiser, deterministic, q_of_action
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
    """Settings of DDPG. Noise is counted where the bounds of an action are -1 and 1."""

    critic_lr: float | None = None
    """learning rate of the critic; None: `lr`"""
    noise: Literal["ornstein_uhlenbeck", "gaussian"] = "ornstein_uhlenbeck"
    """what workers add to actions: noise that drifts through an episode, or a draw for each step"""
    exploration_noise: float = 0.2
    """standard deviation of what is drawn in a step"""
    noise_theta: float | None = None
    """how much of noise that drifts is taken back in a step; None: 0.15"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if self.critic_lr is not None and not self.critic_lr > 0:
            wrong.append(f"critic_lr must be above 0, or None, got {self.critic_lr!r}")
        if not self.exploration_noise >= 0:
            wrong.append(f"exploration_noise must be 0 or above, got {self.exploration_noise!r}")
        if self.noise_theta is not None and self.noise != "ornstein_uhlenbeck":
            wrong.append(
                f"noise_theta={self.noise_theta} is for noise that drifts, and noise={self.noise!r}"
                " does not: leave it out, or give noise='ornstein_uhlenbeck'"
            )
        elif self.noise_theta is not None and not 0 <= self.noise_theta <= 1:
            wrong.append(f"noise_theta must be between 0 and 1, or None, got {self.noise_theta!r}")
        return wrong


TUNED: dict[str, dict[str, Any]] = {"Pendulum-v1": {"hidden": (64, 64), "lr": 1e-3, "tau": 0.01}}
"""settings for environments that the defaults do not suit"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """An actor and a critic, with targets that follow both."""
    follow = Polyak(cfg.tau)
    return Modules(
        actor=deterministic(spec),
        q=q_of_action(spec),
        acts="actor",
        targets={"actor": follow, "q": follow},
        optimisers={"q": Optimiser(lr=cfg.critic_lr)},
    )


def explorer(cfg: Config) -> Explorer:
    """The policy's actions with noise, after some that are uniformly random."""
    return noisy(cfg, cfg.exploration_noise)


def noisy(cfg: Config, scale: Scale) -> Explorer:
    """Noise of the kind that the settings name, of this size."""
    if cfg.noise == "gaussian":
        return Gaussian(scale, random_first=cfg.learning_starts)
    theta = 0.15 if cfg.noise_theta is None else cfg.noise_theta
    return OrnsteinUhlenbeck(scale, theta, random_first=cfg.learning_starts)


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """The critic against the target critic's value of the target actor's action; the actor."""
    next_q = m.target.q(rows.next_obs, m.target.actor(rows.next_obs))
    target = losses.td_target(rows.rewards, rows.discount, next_q)
    q = m.q(rows.obs, rows.actions)
    q_loss = losses.td_loss(q, target, rows.get("weights"))
    yield Step(q_loss, trains="q", stats={"q_loss": q_loss, **td_figures(q, target, rows)})

    actor_loss = -losses.mean(m.q(rows.obs, m.actor(rows.obs)))
    yield Step(actor_loss, trains="actor", stats={"actor_loss": actor_loss})


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts into replay; batches from replay are learned, so many rows per step."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    replay = create_replay_actors(cfg, placement="driver")
    store_op = bulk_sync(rollouts).for_each(StoreToReplayBuffer(replay))
    replay_op = ParallelReplay(replay).gather_sync().flatten().for_each(TrainOneStep(workers))
    if cfg.prioritized_replay:
        replay_op = replay_op.for_each(UpdateReplayPriorities())
    return Concurrently([store_op, replay_op], output_indexes=[1], weights=[1, cfg.train_turns])


DDPG = Algorithm(
    "ddpg", Config, modules, update, plan, prepare=flat_rows, explorer=explorer, tuned=TUNED
)
