"""Settings of Ape-X's plan: replay actors, and a learner of its own that is fed from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rillflow.learning.config import below_one
from rillflow.learning.replay_config import ReplayConfig


@dataclass(frozen=True, kw_only=True)
class DistributedReplayConfig(ReplayConfig):
    """Settings of Ape-X's plan, whatever is learned by it."""

    max_weight_sync_delay: int = 400
    """steps of a worker after which it is sent new weights"""
    learner_queue_size: int = 4
    """draws from replay that may wait for the learner"""
    learner_placement: Literal["driver", "thread", "process"] = "process"
    """where the learner lives: in the driver, on a thread of it, or in a process of its own"""
    weights_every: int = 4
    """draws learned between two snapshots of the weights, of which workers get the newest"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        return super().problems() + below_one(self, "weights_every", "learner_queue_size")
