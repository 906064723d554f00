"""An algorithm of your own in one file: settings, networks, update, plan. Between A2C and A3C.

Workers compute gradients, as in A3C. The learner waits for the first few of them, whoever made
them, and applies their mean: steadier than A3C, and nobody waits for the slowest worker, as in A2C
(Chen et al. 2016, arXiv:1604.00981).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import rillflow as rf
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.prepare import actor_critic_rows
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.modules import Modules, actor_critic
from rillflow.policies.spec import PolicySpec
from rillflow.rl.train import ApplyGradients, AverageGradients, ComputeGradients
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """Settings of averaged actor-critic."""

    lr: float = 4e-3
    num_workers: int = 4
    num_envs_per_worker: int = 8
    rollout_fragment_length: int = 16
    gradients_per_update: int = 3
    """gradients whose mean is applied; fewer than there are workers, so nobody is waited for"""
    lambda_: float = 0.95
    """how far advantages look ahead (GAE)"""
    vf_loss_coef: float = 0.5
    """weight of the value loss"""
    entropy_coef: float = 0.001
    """weight of the entropy bonus"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """One network that acts and values."""
    return Modules(policy=actor_critic(spec), acts="policy")


def prepare(m: Any, batch: Mapping[str, Any], cfg: Config) -> Rows:
    """A fragment of experience as rows to learn from, with advantages and value targets."""
    return actor_critic_rows(m.policy, batch, cfg.gamma, cfg.lambda_)


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """Policy gradient, value loss, entropy bonus."""
    logp, entropy, values = m.policy.evaluate(rows.obs, rows.actions)
    gradient = losses.policy_gradient_loss(logp, rows.advantages)
    value = losses.value_loss(values, rows.targets)
    bonus = losses.entropy_bonus(entropy)
    total = gradient + cfg.vf_loss_coef * value - cfg.entropy_coef * bonus
    yield Step(total, trains="policy", stats={"value_loss": value, "entropy": bonus})


def plan(
    rollouts: rf.ParallelFlow[Any], workers: AnyWorkers, cfg: Config | None = None
) -> rf.Flow[TrainStats]:
    """Gradients of the workers as they come, applied in small groups."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    gradients = rollouts.par_for_each(ComputeGradients()).gather_async()
    means = gradients.batch(cfg.gradients_per_update).for_each(AverageGradients())
    return means.for_each(ApplyGradients(workers))


AVERAGED = Algorithm("averaged", Config, modules, update, plan, prepare=prepare)


if __name__ == "__main__":
    goal = {"return": 150, "steps": 100_000}
    run = rf.train(AVERAGED, "CartPole-v1", until=goal, seed=0)
    last = run.history[-1]
    print(f"return {last['return']:.0f} after {last['steps']:,} steps", run.stats(), sep="\n\n")
