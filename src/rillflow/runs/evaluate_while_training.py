"""Evaluation during training: when it is due, what it gave, and what is done when it fails.

An evaluation never holds up training, but on `sim`, and never ends it, but when several in a row
have failed: a run whose evaluations all fail is not what was asked for.
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.errors import RunError
from rillflow.learning.results import DEFAULT_POLICY
from rillflow.runs.evaluator import Played, Weights
from rillflow.runs.process_beside_training import Players

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig
    from rillflow.results.evaluation import Evaluation

_AT_THE_END = 60.0
"""seconds at least for which the end of a run waits for its last evaluation; five of the slowest,
if these take longer"""
_LOOK = 0.2
"""seconds between two looks at whether the user still wants to wait"""


class GivenUp(Exception):  # noqa: N818 - what it is
    """The user wants to stop, and does not wait for the rest of an evaluation."""


@dataclass(frozen=True)
class PolicyEvaluation:
    """What the policy of one moment of training gave, played greedily."""

    steps: int
    """of the environments that it had learned from"""
    policies: Mapping[str, Evaluation]
    """by policy; one agent's policy is called "default" """
    seconds: float = 0.0
    """that it took"""
    best: bool = field(default=False, compare=False)
    """whether no evaluation before it was as good"""

    @property
    def returns(self) -> tuple[float, ...]:
        """Of all episodes, of all policies."""
        return tuple(value for own in self.policies.values() for value in own.returns)

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    def marked(self, best: bool) -> PolicyEvaluation:
        """The same, knowing whether it is the best so far."""
        return dataclasses.replace(self, best=best)

    def figures(self) -> dict[str, float]:
        """As they stand in a row of the history."""
        lengths = [length for own in self.policies.values() for length in own.lengths]
        found = {
            "eval_return": self.mean,
            "eval_std": float(np.std(self.returns)),
            "eval_length": float(np.mean(lengths)),
            "eval_steps": float(self.steps),
        }
        several = self.policies.keys() != {DEFAULT_POLICY}
        for name, own in self.policies.items():
            prefix = f"{name}/" if several else ""
            if several:
                found[f"{name}/eval_return"] = own.mean
            found |= {f"{prefix}eval_info/{key}": value for key, value in own.infos.items()}
        return found


class Evaluations:
    """The evaluations of one run.

    Args:
        config: with `eval_every` and what else is said of evaluations.
        players: who plays.
        weights: gives those of each policy as they are now.
        steps: of the run so far.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        players: Players,
        weights: Callable[[], Weights],
        steps: int = 0,
    ) -> None:
        assert config.eval_every is not None, "there is something to do"
        self.every, self.most_failures = config.eval_every, config.max_eval_failures
        self.players, self.weights = players, weights
        self.due = self._after(steps)
        """steps at which the next is to begin"""
        self.done = self.failed = self.failed_in_a_row = 0
        self.last: PolicyEvaluation | None = None
        self.under_way: tuple[int, Weights] | None = None
        """steps and weights of the one that is played now"""
        self.finished: tuple[PolicyEvaluation, Weights] | None = None
        """the one that has ended, until somebody takes it"""
        self._began = 0.0
        self._slowest = 0.0
        self._told_slow = self._ending = False

    def _after(self, steps: int) -> int:
        """The next step at which an evaluation is due."""
        return (steps // self.every + 1) * self.every

    def after_step(self, steps: int) -> PolicyEvaluation | None:
        """Begin what is due; the evaluation that has ended since, if one has."""
        found = self._ended()
        if steps >= self.due and self.under_way is None:
            self._begin(steps)
            found = found or self._ended()
        elif steps >= self.due + self.every and self.done and not self._told_slow:
            self._told_slow = True
            _warn(
                f"an evaluation takes longer than {self.every:,} steps of training: the next "
                "begins when it is done; fewer eval_episodes, or a larger eval_every, would keep up"
            )
        return found

    def _begin(self, steps: int) -> None:
        self.due, self._began = self._after(steps), time.monotonic()
        weights = self.weights()
        self.under_way = steps, weights
        self.players.begin(weights)

    def _ended(self, patience: float = 0.0) -> PolicyEvaluation | None:
        if self.under_way is None:
            return None
        outcome = self.players.outcome(patience)
        if outcome is None:
            return None
        (steps, weights), self.under_way = self.under_way, None
        if isinstance(outcome, Exception):
            self._failed(steps, outcome)
            return None
        return self._succeeded(steps, weights, outcome)

    def _succeeded(self, steps: int, weights: Weights, played: Played) -> PolicyEvaluation:
        took = time.monotonic() - self._began
        self._slowest = max(self._slowest, took)
        self.done += 1
        self.failed_in_a_row = 0
        self.last = PolicyEvaluation(steps, played, took)
        self.finished = self.last, weights
        return self.last

    def _failed(self, steps: int, error: Exception) -> None:
        if isinstance(error, GivenUp):
            _warn(f"the evaluation at {steps:,} steps is left out: you want to stop")
            return
        self.failed += 1
        self.failed_in_a_row += 1
        if self.failed_in_a_row >= self.most_failures and not self._ending:
            failure = RunError(
                f"{self.failed_in_a_row} evaluations in a row have failed, the last with: {error}\n"
                "Repair what it says, train without eval_every, or let more of them fail with "
                "max_eval_failures."
            )
            raise failure from error
        first = str(error).partition("\n  remote traceback:")[0].partition(" Policies ")[0].strip()
        _warn(
            f"the evaluation at {steps:,} steps failed and is left out "
            f"({self.failed_in_a_row} of {self.most_failures} in a row); training goes on: {first}"
        )

    def finish(self, steps: int, wanted: Callable[[], bool]) -> Iterator[PolicyEvaluation]:
        """The evaluations of the end of a run, the last that of its last policy.

        Args:
            steps: of the run.
            wanted: whether the user still waits.
        """
        self._ending = True  # what was learned is whole: a failure is told, and ends nothing
        found = self._until_ended(wanted)
        if found is not None:
            yield found
        judged = self.last is not None and self.last.steps >= steps
        if not judged and self.under_way is None and not self.failed_in_a_row and wanted():
            self._begin(steps)
            found = self._until_ended(wanted)
            if found is not None:
                yield found
        if self.under_way is not None:
            why = "it takes too long" if wanted() else "you want to stop"
            _warn(f"the evaluation at {self.under_way[0]:,} steps is left out: {why}")
            self.under_way = None

    def _until_ended(self, wanted: Callable[[], bool]) -> PolicyEvaluation | None:
        ends = time.monotonic() + max(_AT_THE_END, 5 * self._slowest)
        while self.under_way is not None and wanted() and time.monotonic() < ends:
            found = self._ended(_LOOK)
            if found is not None:
                return found
        return None

    def take_finished(self) -> tuple[PolicyEvaluation, Weights] | None:
        """The evaluation that has ended, with the weights that played it; each once."""
        finished, self.finished = self.finished, None
        return finished

    def facts(self) -> dict[str, Any]:
        """For status.json."""
        began = None if self.under_way is None else round(time.monotonic() - self._began, 1)
        last = self.last
        return {
            "every": self.every,
            "done": self.done,
            "failed": self.failed,
            "under_way": None if self.under_way is None else self.under_way[0],
            "seconds": began,
            "last": None if last is None else {"steps": last.steps, "return": _finite(last.mean)},
        }

    def close(self) -> None:
        """End whoever plays."""
        self.players.close()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)
