"""Twin delayed deep deterministic policy gradients (Fujimoto et al. 2018, arXiv:1802.09477)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import below_one
from rillflow.learning.figures import td_figures
from rillflow.learning.prepare import flat_rows
from rillflow.learning.replay_config import ContinuousConfig
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.explorers import Explorer, Gaussian
from rillflow.policies.modules import Modules, deterministic, q_of_action
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
    """Settings of TD3. Noise is counted where the bounds of an action are -1 and 1."""

    exploration_noise: float = 0.1
    """standard deviation of the noise that workers add to actions"""
    policy_delay: int = 2
    """updates of the critics for each one of the actor and the targets"""
    target_noise: float = 0.2
    """standard deviation of the noise that smooths the target's actions"""
    target_noise_clip: float = 0.5
    """largest noise of that kind"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems() + below_one(self, "policy_delay")
        for name in ("exploration_noise", "target_noise", "target_noise_clip"):
            if not getattr(self, name) >= 0:
                wrong.append(f"{name} must be 0 or above, got {getattr(self, name)!r}")
        if not self.target_noise_clip and self.target_noise:
            wrong.append(
                f"target_noise_clip=0 leaves nothing of target_noise={self.target_noise!r}: give "
                "target_noise=0, too"
            )
        return wrong


TUNED: dict[str, dict[str, Any]] = {"Pendulum-v1": {"hidden": (64, 64), "lr": 1e-3, "tau": 0.01}}
"""settings for environments that the defaults do not suit"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """An actor and two critics, all with targets that follow when the actor learns."""
    follow = Polyak(cfg.tau, every=cfg.policy_delay)
    return Modules(
        actor=deterministic(spec),
        q=q_of_action(spec, copies=2),
        acts="actor",
        targets={"actor": follow, "q": follow},
    )


def explorer(cfg: Config) -> Explorer:
    """The policy's actions with noise, after some that are uniformly random."""
    return Gaussian(cfg.exploration_noise, random_first=cfg.learning_starts)


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """The critics against the lower value of a smoothed action; the actor now and then."""
    next_actions = m.target.actor.smoothed(rows.next_obs, cfg.target_noise, cfg.target_noise_clip)
    next_q = losses.lowest(m.target.q(rows.next_obs, next_actions))
    target = losses.td_target(rows.rewards, rows.discount, next_q)
    q = m.q(rows.obs, rows.actions)
    q_loss = losses.td_loss(q, target, rows.get("weights"))
    yield Step(q_loss, trains="q", stats={"q_loss": q_loss, **td_figures(q, target, rows)})

    def actor_loss() -> Any:
        return -losses.mean(m.q(rows.obs, m.actor(rows.obs))[0])

    yield Step(actor_loss, trains="actor", every=cfg.policy_delay)


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Rounds of rollouts into replay; batches from replay are learned, so many rows per step."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    replay = create_replay_actors(cfg, placement="driver")
    store_op = bulk_sync(rollouts).for_each(StoreToReplayBuffer(replay))
    replay_op = ParallelReplay(replay).gather_sync().flatten().for_each(TrainOneStep(workers))
    if cfg.prioritized_replay:
        replay_op = replay_op.for_each(UpdateReplayPriorities())
    return Concurrently([store_op, replay_op], output_indexes=[1], weights=[1, cfg.train_turns])


TD3 = Algorithm(
    "td3", Config, modules, update, plan, prepare=flat_rows, explorer=explorer, tuned=TUNED
)
