"""What both learners share: results with their weights, and when a target network is renewed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.results import Learned, RowStats, TrainStats
from rillflow.learning.skips import Skips


class LearnerBase(ABC):
    """Counts versions, and rows for the target network."""

    target: Any
    """a copy of the network that changes only in `update_target`; None: there is none"""

    def __init__(self, config: AlgorithmConfig) -> None:
        self.config = config
        self.skips = Skips(config)
        self.version = 0
        self.target = None
        self.target_freq = config.target_freq
        """rows trained between two updates of it; None: somebody else sees to it"""
        self.since_target = 0

    @abstractmethod
    def train(
        self, batch: SampleBatch, epochs: int = 1, minibatch: int | None = None
    ) -> TrainStats:
        """`epochs` passes over the batch in shuffled minibatches; None: the whole batch at once."""

    @abstractmethod
    def update_target(self) -> None:
        """Make the target network equal to the one that is being trained."""

    @abstractmethod
    def get_weights(self) -> Mapping[str, Array]:
        """A snapshot that later training does not change."""

    def learn(
        self,
        batch: SampleBatch,
        epochs: int = 1,
        minibatch: int | None = None,
        *,
        with_weights: bool = True,
    ) -> Learned:
        """As `train`, with the weights that it led to, if somebody wants them.

        Without `minibatch` a batch is one optimiser step, or as many as the settings say.
        """
        minibatch = self.config.minibatch if minibatch is None else minibatch
        result = self.train(batch, epochs, minibatch)
        rows = result.rows if isinstance(result, RowStats) else {}
        weights = self.get_weights() if with_weights else None
        return Learned(result.steps, result.stats, rows, weights, self.version)

    def get_target_weights(self) -> Mapping[str, Array]:
        """A snapshot of the target network."""
        assert self.target is not None, "this algorithm has no target network"
        weights: Mapping[str, Array] = self.target.get_weights()
        return weights

    def set_target_weights(self, weights: Mapping[str, Array]) -> None:
        """Make them the target network's."""
        assert self.target is not None, "this algorithm has no target network"
        self.target.set_weights(weights)

    def _count_for_target(self, steps: int) -> None:
        self.since_target += steps
        if self.target_freq is not None and self.since_target >= self.target_freq:
            self.since_target %= self.target_freq
            self.update_target()
