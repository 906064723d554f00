"""A training run as its callbacks see it, while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig
    from rillflow.runs.best_policy import BestPolicy
    from rillflow.runs.evaluations import PolicyEvaluation
    from rillflow.runs.learned import Learned
    from rillflow.scheduler.run import Run
    from rillflow.scheduler.stats import RunStats


class TrainingRun:
    """What a callback is given as `run`: figures, the policy as it is now, and a way to stop."""

    def __init__(
        self,
        config: AlgorithmConfig,
        until: Mapping[str, float],
        directory: Path | None,
        learned: Learned,
        best: BestPolicy,
        run: Run[Any],
    ) -> None:
        self.config = config
        """the settings"""
        self.until = dict(until)
        """its limits"""
        self.directory = directory
        """of its files; None: it has none"""
        self.result: Mapping[str, float] = {}
        """the newest row of figures"""
        self.evaluation: PolicyEvaluation | None = None
        """the newest, if there is one"""
        self.stopped_by = ""
        """why it is to end, if somebody has said so"""
        self._learned, self._best, self._run = learned, best, run

    @property
    def steps(self) -> int:
        """Of the environments so far."""
        return int(self.result.get("steps", 0))

    @property
    def policy(self) -> Any:
        """A copy of what it has learned so far: `Trained`, or `TrainedAgents` of several agents."""
        return self._learned.policy()

    @property
    def best(self) -> Any:
        """The best policy so far, judged by evaluation if there is one; None: there is none yet."""
        return self._best.policy()

    @property
    def history(self) -> list[dict[str, float]]:
        """The rows so far; of a long run, some of them."""
        return self._learned.rows()

    def stats(self) -> RunStats:
        """Rates of every operator, and what limits the run; `print` it."""
        return self._run.stats()

    def stop(self) -> None:
        """End the run after this step, as a goal that is reached: the same as to return "stop"."""
        self.stopped_by = "a callback called run.stop()"

    def __repr__(self) -> str:
        return f"<training run after {self.steps:,} steps>"
