"""R2D2: recurrent experience replay, distributed (Kapturowski et al. 2019, ICLR).

Ape-X for policies that remember. Replay keeps whole sequences, each with the memory that the worker
had before it. Before a sequence is learned from, both networks see the steps of its burn-in,
without gradients, so that their memory is that of their own weights. Values are learned on a
smaller scale, h(q), in the place of clipped rewards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rillflow.algorithms import apex
from rillflow.algorithms.apex import explorer
from rillflow.flows.flow import Flow
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.distributed_replay import DistributedReplayConfig
from rillflow.learning.q_learning import QConfig, modules, prepare, update
from rillflow.learning.q_switches import rates_that_stay
from rillflow.learning.results import TrainStats
from rillflow.rl.rollouts import Rollouts
from rillflow.rl.workers import AnyWorkers, bind


@dataclass(frozen=True, kw_only=True)
class Config(QConfig, DistributedReplayConfig):
    """Settings of R2D2.

    A sequence is what one environment did in one rollout, with `burn_in` steps before it.
    """

    memory: Literal["lstm", "gru"] | None = "lstm"
    rollout_fragment_length: int = 32
    burn_in: int = 8
    double_q: bool = True
    dueling: bool = True
    n_step: int = 5
    value_rescaling: float | None = 1e-3
    prioritized_replay: bool = True
    prioritized_replay_alpha: float = 0.9
    prioritized_replay_beta: float = 0.6
    train_batch_size: int = 256
    training_intensity: float = 16.0
    target_network_update_freq: int = 5000
    num_replay_buffer_shards: int = 2

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if not self.remembers:
            wrong.append(
                "R2D2 is for a policy that remembers: give memory='lstm' or 'gru', or a network of "
                "your own with a state_shape; for one that does not there is apex"
            )
        if self.worker_priorities:
            wrong.append(
                "worker_priorities are of single steps, and R2D2 keeps sequences, which enter "
                "replay with the largest priority so far: leave it out"
            )
        wrong += rates_that_stay(self, "R2D2")
        return wrong


def plan(rollouts: Rollouts, workers: AnyWorkers, cfg: Config | None = None) -> Flow[TrainStats]:
    """Ape-X's plan: sequences into replay actors, a learner of its own, priorities back."""
    workers, cfg = bind(Config, rollouts, workers, cfg)
    return apex.plan(rollouts, workers, cfg)


R2D2 = Algorithm(
    "r2d2",
    Config,
    modules,
    update,
    plan,
    prepare=prepare,
    explorer=explorer,
    recurrent=True,
)
