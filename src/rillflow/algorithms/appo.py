"""Asynchronous PPO, by the plan of IMPACT (Luo et al. 2020, arXiv:1912.00167).

IMPALA's workers, V-trace and learner, with PPO's clipped surrogate. Ratios are to a target network,
not to the weights that acted: these are different for every batch, and some are old.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rillflow.algorithms import impala
from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import below_one
from rillflow.learning.prepare import discounts
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.modules import Modules, actor_critic
from rillflow.policies.spec import PolicySpec
from rillflow.policies.target_networks import Hard
from rillflow.rl.learner_thread import LearnerThread
from rillflow.rl.rollouts import ConcatBatches, Rollouts, as_ready
from rillflow.rl.train import TrainOneStep
from rillflow.rl.weights import UpdateWorkerWeights
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(impala.Config):
    """Settings of APPO: those of IMPALA, of the surrogate and its target, of reused batches."""

    batch_uses: int = 2
    """times that each training batch is learned from; none is dropped before its last"""
    newer_batches_between: int = 0
    """how many newer batches come between two uses of one; 0: they follow each other"""
    target_network_update_freq: int = 1024
    """rows trained, each use of a batch counted, between two updates of the target network"""
    clip_param: float = 0.4
    """how far the policy may move from the target network's"""
    worker_clip: float = 2.0
    """how many times likelier than to the target network an action may have been to the worker that
    took it, for the surrogate; what is likelier counts as so many times"""

    def steps_behind(self, rows: int) -> float:
        """Steps of the environments that stand behind so many rows trained."""
        return rows / self.batch_uses

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems() + below_one(self, "batch_uses", "target_network_update_freq")
        between = self.newer_batches_between
        if between < 0:
            wrong.append(f"newer_batches_between must be at least 0, got {between!r}")
        if between and self.batch_uses == 1:
            wrong.append(
                f"newer_batches_between={between} is for batches that are used again, and "
                "batch_uses=1 uses each once: leave it out, or give batch_uses=2"
            )
        if not self.clip_param > 0:
            wrong.append(f"clip_param must be above 0, got {self.clip_param!r}")
        if not self.worker_clip >= 1:
            wrong.append(f"worker_clip must be at least 1, got {self.worker_clip!r}")
        return wrong


TUNED: dict[str, dict[str, Any]] = {
    **impala.TUNED,
    # once it hardly ever fails, gradients are tiny for a long time; see `amsgrad`
    "CartPole-v1": {"lr": 2e-3, "amsgrad": True},
    "atari": {**impala.TUNED["atari"], "batch_uses": 1},  # learning takes most of the time
    # PPO's passes over batches that are one or two of them old: the target is the policy that the
    # first pass over a batch begins with
    "atari-gpu": {
        **impala.TUNED["atari-gpu"],
        "rollout_fragment_length": 32,
        "train_batch_size": 8192,
        "sgd_minibatch_size": 1024,
        "batch_uses": 4,
        "target_network_update_freq": 4 * 8192,
        "clip_param": 0.1,
        "standardize_advantages": True,
    },
}
"""settings for environments that the defaults do not suit"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """One network that acts and values, and a target that is renewed now and then."""
    return Modules(
        policy=actor_critic(spec),
        acts="policy",
        targets={"policy": Hard(cfg.target_network_update_freq)},
    )


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """The clipped surrogate and the value loss, both with V-trace of the target network's policy.

        r = min(pi_worker / pi_target, worker_clip) * pi / pi_worker

    Where an episode ends is as in IMPALA.
    """
    logp, entropy, values, next_values = m.policy.evaluate_fragments(rows)
    # just renewed, the target is the network: what that thinks is known from the pass at hand
    same = m.at_target("policy")
    target_logp = logp.detach() if same else m.target.policy.evaluate_rows(rows)[0]
    valid = rows.get("valid")
    ended = rows.terminated | rows.truncated
    targets, advantages = losses.vtrace(
        target_logp - rows.logp,
        rows.rewards,
        discounts(rows.terminated, cfg.gamma),
        values.detach(),
        next_values,
        ended if valid is None else ended | ~valid,
        clip_rho=cfg.vtrace_clip_rho_threshold,
        clip_pg_rho=cfg.vtrace_clip_pg_rho_threshold,
        lam=cfg.vtrace_lambda,
    )
    if cfg.standardize_advantages:
        advantages = losses.standardized(advantages, valid)
    # r is pi / max(pi_target, pi_worker / worker_clip)
    least = math.log(cfg.worker_clip)
    anchor = -losses.minimum(-target_logp, least - rows.logp)
    surrogate = losses.clipped_surrogate_loss(logp, anchor, advantages, cfg.clip_param, valid)
    value = losses.value_loss(values, targets, valid)
    bonus = losses.entropy_bonus(entropy, valid)
    stats = {
        "policy_loss": surrogate,
        "value_loss": value,
        "entropy": bonus,
        "kl": losses.approximate_kl(rows.logp, logp.detach(), valid),
        "clip_fraction": losses.clip_fraction(logp.detach(), anchor, cfg.clip_param, valid),
    }
    total = surrogate + cfg.vf_loss_coef * value - cfg.entropy_coef * bonus
    yield Step(total, trains="policy", stats=stats)


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """IMPALA's, with batches that are learned from several times."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    learner = LearnerThread(workers, cfg)
    enqueue_op = (
        as_ready(rollouts, cfg.max_sample_requests_in_flight_per_worker)
        .for_each(UpdateWorkerWeights(workers))
        .combine(ConcatBatches(cfg.train_batch_size))
        .repeat(cfg.batch_uses, after=cfg.newer_batches_between)
        .for_each(Enqueue(learner.inqueue))
    )
    dequeue_op = Dequeue(learner.outqueue).for_each(TrainOneStep(workers))
    return Concurrently([enqueue_op, dequeue_op], mode="async", output_indexes=[1])


APPO = Algorithm("appo", Config, modules, update, plan, tuned=TUNED, recurrent=True)
