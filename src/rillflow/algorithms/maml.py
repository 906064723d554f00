"""Model-agnostic meta-learning (Finn et al. 2017, arXiv:1703.03400).

Learns weights from which a few policy-gradient steps lead to a good policy for a task that was
never seen. Each worker has a task of its own; the outer step is PPO's. Afterwards:

    trained = rf.train("maml", "PointGoal", until={"steps": 200_000})
    (task,) = maml.tasks_of(trained.config, 1, seed=7)
    print(maml.adapt_and_evaluate(trained.config, trained.weights, task, steps=3).returns)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rillflow.experience.batch import Array
from rillflow.flows.flow import Flow
from rillflow.flows.parallel import ParallelFlow
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.modules import Modules, actor_critic
from rillflow.policies.spec import PolicySpec
from rillflow.rl.meta import InnerAdapt, MetaUpdate
from rillflow.rl.meta import tasks_of as tasks_of
from rillflow.rl.meta_worker import MetaWorker
from rillflow.rl.workers import AnyWorkers, Workers, bind
from rillflow.types import ActorInfo


@dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """Settings of MAML; the number of workers is that of the tasks per meta-update."""

    env: Any = "PointGoal"
    num_workers: int = 4
    num_envs_per_worker: int = 16
    rollout_fragment_length: int = 20
    """steps of each environment per round; a round begins new episodes, so at least one of them"""
    lr: float = 3e-3
    """learning rate of the meta-update"""
    inner_lr: float = 0.1
    """size of a step of adaptation"""
    inner_adaptation_steps: int = 1
    """steps of adaptation to a task"""
    maml_optimizer_steps: int = 5
    """optimiser steps per meta-update"""
    lambda_: float = 1.0
    """how far advantages look ahead (GAE)"""
    clip_param: float = 0.3
    """how far an adapted policy may move per meta-update"""
    entropy_coef: float = 0.0
    """weight of the entropy bonus"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems() + [
            f"{name} must be at least 1, got {getattr(self, name)!r}"
            for name in ("inner_adaptation_steps", "maml_optimizer_steps")
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1
        ]
        if self.scale_rewards:
            wrong.append(
                "scale_rewards=True has nothing to scale here: advantages of every round are "
                "standardised; leave it out"
            )
        if self.framework == "numpy":
            wrong.append(
                "framework='numpy' has no gradients of gradients, which the meta-update needs: "
                "leave it out"
            )
        if self.inner_lr <= 0:
            wrong.append(f"inner_lr must be above 0, got {self.inner_lr!r}")
        return wrong


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """One network that acts."""
    return Modules(policy=actor_critic(spec), acts="policy")


def prepare(m: Any, batch: Mapping[str, Any], cfg: Config) -> Rows:
    """Rows with advantages, both for adapting and for the meta-update."""
    from rillflow.learning.meta_learner import finite_horizon_rows

    return Rows(finite_horizon_rows(dict(batch), cfg.gamma, cfg.lambda_))


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """Of an adapted policy on the round it made: the clipped surrogate and the entropy bonus."""
    logp, entropy, _ = m.policy.evaluate(rows.obs, rows.actions)
    surrogate = losses.clipped_surrogate_loss(logp, rows.logp, rows.advantages, cfg.clip_param)
    bonus = losses.entropy_bonus(entropy)
    stats = {
        "policy_loss": surrogate,
        "entropy": bonus,
        "kl": losses.approximate_kl(rows.logp, logp.detach()),
    }
    yield Step(surrogate - cfg.entropy_coef * bonus, trains="policy", stats=stats)


def plan(
    rollouts: ParallelFlow[Any], workers: AnyWorkers, cfg: Config | None = None
) -> Flow[TrainStats]:
    """Rounds of rollouts, between which workers adapt; then one meta-update from all of them."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    adapt = InnerAdapt(workers, steps=cfg.inner_adaptation_steps)
    return rollouts.gather_sync().combine(adapt).for_each(MetaUpdate(workers))


MAML = Algorithm("maml", Config, modules, update, plan, prepare=prepare, worker=MetaWorker)


@dataclass(frozen=True)
class Adaptation:
    """What adapting to a task gave."""

    returns: list[float]
    """mean returns: before, and after each step"""
    weights: dict[str, Array]
    """of the adapted policy"""


def adapt_and_evaluate(
    config: Config,
    weights: Mapping[str, Array],
    task: Any,
    *,
    steps: int | None = None,
    seed: int = 1,
) -> Adaptation:
    """Adapt trained weights to a task, in this process, as a worker would.

    Args:
        config: the settings they were trained with, such as `trained.config`.
        weights: what training has led to, such as `trained.weights`.
        task: what the environment's `set_task` takes, such as one of `tasks_of(config, ...)`.
        steps: of adaptation, each from one round of episodes; by default those of the settings.
        seed: of the environments and of the actions.
    """
    from rillflow.learning.meta_learner import mean_return
    from rillflow.rl.meta_worker import MetaWorker

    workers = Workers(config)
    worker = MetaWorker(workers.config, workers.spec, ActorInfo("adapting", 0, 0, seed, seed))
    try:
        worker.set_weights(weights)
        worker.set_task(task)
        returns = [mean_return(worker.sample())]
        for _ in range(config.inner_adaptation_steps if steps is None else steps):
            worker.adapt()
            returns.append(mean_return(worker.sample()))
        return Adaptation(returns, worker.adapted_weights())
    finally:
        worker.close()
