"""Q learning with uniform replay and a target network (Mnih et al. 2013, arXiv:1312.5602)."""

from __future__ import annotations

from dataclasses import dataclass

from rillflow.batch import SampleBatch
from rillflow.graph.flow import Flow
from rillflow.graph.merge import Concurrently
from rillflow.graph.parallel import ParallelFlow
from rillflow.rl.q_learning import QConfig
from rillflow.rl.q_learning import flat_rows as postprocess
from rillflow.rl.q_learning import q_loss as loss
from rillflow.rl.replay import (
    MakeTransitions,
    ParallelReplay,
    StoreToReplayBuffer,
    UpdateTargetNetwork,
    create_replay_actors,
)
from rillflow.rl.results import TrainStats
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import Workers

__all__ = ["Config", "loss", "plan", "postprocess"]


@dataclass(frozen=True, kw_only=True)
class Config(QConfig):
    """Settings of simple q learning.

    Without double q learning the values of one step grow without bound on a quick target network;
    looking several steps ahead, and a slower target, keep them in check.
    """

    n_step: int = 5
    target_network_update_freq: int = 4000


def plan(
    rollouts: ParallelFlow[SampleBatch], workers: Workers, cfg: Config | None = None
) -> Flow[TrainStats]:
    """Rounds of rollouts into replay; batches from replay are learned."""
    cfg = cfg or workers.config  # type: ignore[assignment]
    assert isinstance(cfg, Config)
    replay = create_replay_actors(cfg, placement="driver")
    rows = rollouts.for_each(MakeTransitions(cfg.n_step, cfg.gamma)).gather_sync()
    store_op = rows.for_each(SampleBatch.concat).for_each(StoreToReplayBuffer(actors=replay))
    replay_op = (
        ParallelReplay(actors=replay)
        .gather_sync()
        .flatten()
        .for_each(TrainOneStep(workers))
        .for_each(UpdateTargetNetwork(workers, cfg.target_network_update_freq))
    )
    return Concurrently([store_op, replay_op], output_indexes=[1], weights=[1, cfg.train_turns])
