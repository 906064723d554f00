"""IMPALA: importance weighted actor-learners (Espeholt et al. 2018, arXiv:1802.01561)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.learning import losses
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import AlgorithmConfig, below_one
from rillflow.learning.prepare import discounts
from rillflow.learning.results import TrainStats
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.modules import Modules, actor_critic
from rillflow.policies.spec import PolicySpec
from rillflow.rl.learner_thread import LearnerThread
from rillflow.rl.rollouts import ConcatBatches, Rollouts, as_ready
from rillflow.rl.train import TrainOneStep
from rillflow.rl.weights import UpdateWorkerWeights
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """Settings of IMPALA."""

    lr: float = 1e-3
    num_envs_per_worker: int = 16
    rollout_fragment_length: int = 8
    train_batch_size: int = 128
    """least steps per training batch"""
    sgd_minibatch_size: int | None = None
    """rows per optimiser step, of whole trajectories chosen at random from the batch; None: a batch
    is one step"""
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
    vtrace_lambda: float = 1.0
    """how far V-trace looks ahead, as GAE's lambda: less hangs less on single late rewards"""
    standardize_advantages: bool = False
    """whether the advantages of each batch are learned from with mean 0 and deviation 1, as PPO
    does: rare rewards then move the policy as far as frequent ones"""
    vf_loss_coef: float = 0.5
    """weight of the value loss"""
    entropy_coef: float = 0.001
    """weight of the entropy bonus"""

    @property
    def minibatch(self) -> int | None:
        """Rows per optimiser step, where a batch is several."""
        return self.sgd_minibatch_size

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        names = "max_sample_requests_in_flight_per_worker", "learner_queue_size"
        wrong = super().problems() + below_one(self, *names)
        if not 0 <= self.vtrace_lambda <= 1:
            wrong.append(f"vtrace_lambda must be between 0 and 1, got {self.vtrace_lambda!r}")
        if not 0 <= self.num_aggregation_workers <= self.num_workers:
            wrong.append(
                "aggregators share the workers among themselves, so num_aggregation_workers must "
                f"be from 0 to num_workers={self.num_workers}, got {self.num_aggregation_workers!r}"
            )
        return wrong


TUNED: dict[str, dict[str, Any]] = {
    # once it hardly ever fails, gradients are tiny for a long time; see `adam_epsilon`
    "CartPole-v1": {"lr": 2e-3, "adam_epsilon": 0.02},
    "CartPole-hidden-velocity": {
        "memory": "lstm",
        "memory_size": 64,
        "hidden": (64,),
        "rollout_fragment_length": 32,
        "train_batch_size": 512,
        "max_sample_requests_in_flight_per_worker": 1,
        "lr": 2e-3,
        "gamma": 0.97,
        "vf_loss_coef": 0.01,  # the critic shares the network, and its errors are large
    },
    # with more of a learning rate the torque of one seed in four ends at its bound
    "Pendulum-v1": {
        "num_envs_per_worker": 8,
        "rollout_fragment_length": 20,
        "train_batch_size": 320,
        "lr": 4e-4,
        "gamma": 0.9,
        "entropy_coef": 0.005,
        "activation": "relu",
        "normalize_observations": True,
        "scale_rewards": None,
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
    "atari-gpu": {
        "env_config": {"resumable": False},  # its games would cost a twentieth of the steps
        "train_batch_size": 1280,  # of two workers at least, whose trajectories are mixed
        "sgd_minibatch_size": 640,
        "learner_queue_size": 1,
        "grad_clip": 0.5,  # of the gradient of a mean
        "vtrace_lambda": 0.95,
    },
}
"""settings for environments that the defaults do not suit"""


def modules(spec: PolicySpec, cfg: Config) -> Modules:
    """One network that acts and values."""
    return Modules(policy=actor_critic(spec), acts="policy")


def update(m: Any, rows: Rows, cfg: Config) -> Steps:
    """Policy gradient and value loss with V-trace, which corrects for weights that have moved on.

    Nothing follows where an episode terminated; where it was cut, the value of its final
    observation stands for what would have followed; rows that only reset are left out.
    """
    logp, entropy, values, next_values = m.policy.evaluate_fragments(rows)
    valid = rows.get("valid")
    ended = rows.terminated | rows.truncated
    targets, advantages = losses.vtrace(
        logp.detach() - rows.logp,
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
    gradient = losses.policy_gradient_loss(logp, advantages, valid)
    value = losses.value_loss(values, targets, valid)
    bonus = losses.entropy_bonus(entropy, valid)
    stats = {
        "policy_loss": gradient,
        "value_loss": value,
        "entropy": bonus,
        "kl": losses.approximate_kl(rows.logp, logp.detach(), valid),
    }
    total = gradient + cfg.vf_loss_coef * value - cfg.entropy_coef * bonus
    yield Step(total, trains="policy", stats=stats)


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


IMPALA = Algorithm("impala", Config, modules, update, plan, tuned=TUNED, recurrent=True)
