"""IMPALA: importance weighted actor-learners (Espeholt et al. 2018, arXiv:1802.01561)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from rillflow.experience.batch import Array
from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.learning import analytic
from rillflow.learning.config import AlgorithmConfig, refused
from rillflow.learning.postprocess import Rows, evaluate_fragments
from rillflow.learning.results import Loss, TrainStats
from rillflow.rl.learner_thread import LearnerThread
from rillflow.rl.rollouts import ConcatBatches, Rollouts, as_ready
from rillflow.rl.train import TrainOneStep
from rillflow.rl.weights import UpdateWorkerWeights
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """Settings of IMPALA."""

    recurrent: ClassVar[bool] = True

    lr: float = 1e-3
    num_envs_per_worker: int = 16
    rollout_fragment_length: int = 8
    train_batch_size: int = 128
    """least steps per training batch"""
    grad_clip: float | None = 5.0
    max_sample_requests_in_flight_per_worker: int = 2
    """fragments that a worker is asked for at a time; more keep it busy, with older weights"""
    num_aggregation_workers: int = 0
    """actors between the workers and the driver that join fragments; 0: the driver does it"""
    learner_queue_size: int = 1
    """training batches that may wait for the learner; each makes the next ones one update older"""
    learner_placement: Literal["driver", "thread", "process"] | None = None
    """where the learner lives: in the driver, on a thread of it, or in a process of its own; None:
    in the driver if NumPy learns from up to two workers and all cores are taken, else a process"""
    vtrace_clip_rho_threshold: float = 1.0
    """ceiling of the importance weights in the value targets"""
    vtrace_clip_pg_rho_threshold: float = 1.0
    """ceiling of the importance weights in the policy gradient"""
    vf_loss_coef: float = 0.5
    """weight of the value loss"""
    entropy_coef: float = 0.001
    """weight of the entropy bonus"""

    def validate(self) -> None:
        """Refuse numbers that cannot work, all at once."""
        super().validate()
        names = ("max_sample_requests_in_flight_per_worker", "learner_queue_size")
        wrong = [
            f"{name} must be at least 1, got {getattr(self, name)!r}"
            for name in names
            if getattr(self, name) < 1
        ]
        if not 0 <= self.num_aggregation_workers <= self.num_workers:
            wrong.append(
                "aggregators share the workers among themselves, so num_aggregation_workers must "
                f"be from 0 to num_workers={self.num_workers}, got {self.num_aggregation_workers!r}"
            )
        if wrong:
            raise refused(type(self), wrong)


TUNED = {
    # once it hardly ever fails, gradients are tiny for a long time; see `adam_epsilon`
    "CartPole-v1": {"lr": 2e-3, "adam_epsilon": 0.02},
    "CartPole-hidden-velocity": {
        "model": "lstm",
        "lstm_size": 64,
        "hidden": (64,),
        "rollout_fragment_length": 32,
        "train_batch_size": 512,
        "max_sample_requests_in_flight_per_worker": 1,
        "lr": 2e-3,
        "gamma": 0.97,
        "vf_loss_coef": 0.01,  # the critic shares the network, and its errors are large
    },
    "atari": {
        "num_envs_per_worker": 32,
        "rollout_fragment_length": 20,
        "train_batch_size": 640,
        "lr": 5e-4,
        "grad_clip": 40.0,
        "learner_queue_size": 2,
        "entropy_coef": 0.01,
        "learner_placement": "thread",  # a batch of pictures would be copied on its way
    },
}
"""settings for environments that the defaults do not suit"""


def postprocess(policy: Any, batch: Rows, cfg: Config) -> Rows:
    """Fragments stay as they are, time-major: V-trace needs the order of their steps."""
    return batch


def loss(policy: Any, rows: Rows, cfg: Config) -> Loss:
    """Policy gradient and value loss with V-trace, which corrects for weights that have moved on.

    Nothing follows where an episode terminated; where it was cut, the value of its final
    observation stands for what would have followed; rows that only reset are left out.
    """
    from rillflow.learning import losses

    logp, entropy, values, next_values = evaluate_fragments(policy, rows)
    terminated, valid = rows["terminated"], rows.get("valid")
    ended = terminated | rows["truncated"]
    targets, advantages = losses.vtrace(
        logp.detach() - rows["logp"],
        rows["rewards"],
        cfg.gamma * (~terminated).to(values.dtype),
        values.detach(),
        next_values,
        ended if valid is None else ended | ~valid,
        clip_rho=cfg.vtrace_clip_rho_threshold,
        clip_pg_rho=cfg.vtrace_clip_pg_rho_threshold,
    )
    gradient = losses.policy_gradient_loss(logp, advantages, valid)
    value = losses.value_loss(values, targets, valid)
    bonus = losses.entropy_bonus(entropy, valid)
    kl = losses.approximate_kl(rows["logp"], logp.detach(), valid)
    total = gradient + cfg.vf_loss_coef * value - cfg.entropy_coef * bonus
    stats = {"policy_loss": gradient, "value_loss": value, "entropy": bonus, "kl": kl}
    return Loss(total, {name: figure.detach() for name, figure in stats.items()})


def numpy_postprocess(
    network: analytic.Network, batch: Mapping[str, Array], cfg: Config
) -> analytic.Rows:
    """As `postprocess`, in NumPy."""
    return dict(batch)


def numpy_loss(network: analytic.Network, rows: analytic.Rows, cfg: Config) -> dict[str, Any]:
    """As `loss`, in NumPy; it leaves the gradient in the network."""
    logp, entropy, values, next_values = analytic.evaluate_fragments(network, rows)
    terminated = rows["terminated"]
    valid = rows.get("valid", np.True_)
    targets, advantages = analytic.vtrace(
        logp - rows["logp"],
        np.asarray(rows["rewards"], np.float32),
        np.float32(cfg.gamma) * ~terminated,
        values,
        next_values,
        terminated | rows["truncated"] | ~valid,
        clip_rho=cfg.vtrace_clip_rho_threshold,
        clip_pg_rho=cfg.vtrace_clip_pg_rho_threshold,
    )
    share = analytic.shares(np.broadcast_to(valid, logp.shape).ravel())
    gradient, d_logp = analytic.policy_gradient_loss(logp.ravel(), advantages.ravel(), share)
    value, d_values = analytic.value_loss(values.ravel(), targets.ravel(), share)
    network.backward(d_logp, -cfg.entropy_coef * share, cfg.vf_loss_coef * d_values)
    return {
        "policy_loss": gradient,
        "value_loss": value,
        "entropy": entropy.ravel() @ share,
        "kl": analytic.approximate_kl(rows["logp"].ravel(), logp.ravel(), share),
    }


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Fragments as they come, answered with the newest weights; a learner of its own."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    learner = LearnerThread(workers, cfg)
    enqueue_op = (
        as_ready(rollouts, cfg.max_sample_requests_in_flight_per_worker)
        .for_each(UpdateWorkerWeights(workers))
        .combine(ConcatBatches(cfg.train_batch_size))
        .for_each(Enqueue(learner.inqueue))
    )
    dequeue_op = Dequeue(learner.outqueue).for_each(TrainOneStep(workers))
    return Concurrently([enqueue_op, dequeue_op], mode="async", output_indexes=[1])
