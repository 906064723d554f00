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
from rillflow.rl.results import DEFAULT_POLICY, TrainStats
from rillflow.rl.workers import AnyWorkers

WINDOW = 100
"""episodes over which the reported return is the mean"""


@dataclass
class Progress:
    """Counts of a training run, fed by what travels with the workers' answers."""

    steps: int = 0
    episodes: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    by_policy: dict[str, deque[float]] = field(default_factory=dict)
    begin: float = field(default_factory=time.monotonic)

    def record(self, actor: str, seq: int, metrics: Mapping[str, Any]) -> None:
        """One answer of a worker."""
        self.steps += metrics.get("steps", 0)
        self._count(self.returns, metrics.get("episodes", ()))
        for policy, episodes in metrics.get("policies", {}).items():
            own = self.by_policy.setdefault(policy, deque(maxlen=WINDOW))
            self._count(own, episodes)
            self.returns.extend(float(episode_return) for episode_return, _ in episodes)

    def _count(self, returns: deque[float], episodes: Any) -> None:
        self.episodes += len(episodes)
        returns.extend(float(episode_return) for episode_return, _ in episodes)

    @property
    def mean_return(self) -> float:
        """Over the last 100 episodes; not a number before there are that many."""
        return _mean(self.returns)

    def row(self, result: TrainStats) -> dict[str, float]:
        """One line of the history; figures of one policy among several have its name."""
        prefix = "" if result.policy == DEFAULT_POLICY else f"{result.policy}/"
        return {
            "steps": self.steps,
            "episodes": self.episodes,
            "return": self.mean_return,
            **{f"{policy}/return": _mean(own) for policy, own in self.by_policy.items()},
            "seconds": time.monotonic() - self.begin,
            **{prefix + name: value for name, value in result.stats.items()},
        }

    def get_state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "steps": self.steps,
            "episodes": self.episodes,
            "returns": list(self.returns),
            "by_policy": {policy: list(own) for policy, own in self.by_policy.items()},
            "seconds": time.monotonic() - self.begin,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.steps, self.episodes = state["steps"], state["episodes"]
        self.returns = deque(state["returns"], maxlen=WINDOW)
        self.by_policy = {
            policy: deque(own, maxlen=WINDOW) for policy, own in state["by_policy"].items()
        }
        self.begin = time.monotonic() - state["seconds"]


def _mean(returns: deque[float]) -> float:
    return float(np.mean(returns)) if len(returns) == WINDOW else float("nan")


class Report(Operator[TrainStats, dict[str, float]]):
    """Each training result as a row of figures, with what the workers reported meanwhile."""

    def __init__(self, workers: AnyWorkers) -> None:
        self.workers = workers
        self.progress = Progress()

    def on_start(self, ctx: Context) -> None:
        """Listen to what travels with the answers."""
        self.progress = Progress()
        ctx.on_metrics(self.progress.record)

    def __call__(self, result: TrainStats) -> dict[str, float]:
        """One row."""
        return self.progress.row(result)

    def get_state(self) -> dict[str, Any]:
        """What was counted so far."""
        return self.progress.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self.progress.set_state(state)


def ReportMetrics(  # noqa: N802 - an operator, under the paper's name
    train_op: Flow[TrainStats], workers: AnyWorkers
) -> Flow[dict[str, float]]:
    """Training results as rows of figures: steps, episodes, mean return, and the loss's own."""
    return train_op.for_each(Report(workers))
