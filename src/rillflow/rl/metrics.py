"""What a training run reports: steps, episodes, returns. They travel with the workers' answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rillflow.graph.flow import Flow
from rillflow.ops.context import Context, Operator
from rillflow.rl.results import TrainStats
from rillflow.rl.workers import Workers

WINDOW = 100
"""episodes over which the reported return is the mean"""


@dataclass
class Progress:
    """Counts of a training run, fed by what travels with the workers' answers."""

    steps: int = 0
    episodes: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    begin: float = field(default_factory=time.monotonic)

    def record(self, actor: str, seq: int, metrics: Mapping[str, Any]) -> None:
        """One answer of a worker."""
        self.steps += metrics.get("steps", 0)
        for episode_return, _ in metrics.get("episodes", ()):
            self.episodes += 1
            self.returns.append(float(episode_return))

    @property
    def mean_return(self) -> float:
        """Over the last 100 episodes; not a number before there are that many."""
        return float(np.mean(self.returns)) if len(self.returns) == WINDOW else float("nan")

    def row(self, stats: Mapping[str, float]) -> dict[str, float]:
        """One line of the history."""
        return {
            "steps": self.steps,
            "episodes": self.episodes,
            "return": self.mean_return,
            "seconds": time.monotonic() - self.begin,
            **stats,
        }


class Report(Operator[TrainStats, dict[str, float]]):
    """Each training result as a row of figures, with what the workers reported meanwhile."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.progress = Progress()

    def on_start(self, ctx: Context) -> None:
        """Listen to what travels with the answers."""
        self.progress = Progress()
        ctx.on_metrics(self.progress.record)

    def __call__(self, result: TrainStats) -> dict[str, float]:
        """One row."""
        return self.progress.row(result.stats)


def ReportMetrics(  # noqa: N802 - an operator, under the paper's name
    train_op: Flow[TrainStats], workers: Workers
) -> Flow[dict[str, float]]:
    """Training results as rows of figures: steps, episodes, mean return, and the loss's own."""
    return train_op.for_each(Report(workers))
