"""What losses, gradients and training steps give, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rillflow.experience.batch import Array

DEFAULT_POLICY = "default"
"""the policy of workers that have only one"""


class _Ships:
    """A value that travels as its fields, without a pickle."""

    def __ship__(self) -> tuple[None, dict[str, Any]]:
        return None, dict(vars(self))

    @classmethod
    def __unship__(cls, fixed: None, fields: dict[str, Any]) -> Any:
        made = object.__new__(cls)
        vars(made).update(fields)
        return made


@dataclass(frozen=True)
class Gradients(_Ships):
    """Gradients by parameter name, the number of steps they were made from, and figures."""

    values: Mapping[str, Array]
    steps: int
    stats: dict[str, float]
    seen: Mapping[str, Array] | None = None
    """statistics of the observations they were made from, where these are normalised"""


@dataclass(frozen=True)
class TrainStats(_Ships):
    """One result of training: steps trained, the means of the loss's figures, which policy."""

    steps: int
    stats: dict[str, float]
    policy: str = field(default=DEFAULT_POLICY, kw_only=True)


@dataclass(frozen=True)
class RowStats(TrainStats):
    """A training result with figures of each row, such as its key in replay and its TD error."""

    rows: dict[str, Array]


@dataclass(frozen=True)
class Learned(RowStats):
    """A training result with the weights that it led to, on its way to whoever publishes them.

    Nobody changes these weights any more: no thread reads live parameters of another.
    """

    weights: Mapping[str, Array] | None
    """None: those of another result will do"""
    version: int

    def result(self, policy: str) -> RowStats:
        """The result alone, of the policy of this name."""
        return RowStats(self.steps, self.stats, self.rows, policy=policy)
