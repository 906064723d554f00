"""What losses, gradients and training steps give, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from rillflow.batch import Array


class Loss(NamedTuple):
    """What a loss function returns: the scalar tensor to minimise, and figures to report."""

    total: Any
    stats: dict[str, Any]


@dataclass(frozen=True)
class Gradients:
    """Gradients by parameter name, the number of steps they were made from, and figures."""

    values: dict[str, Array]
    steps: int
    stats: dict[str, float]


@dataclass(frozen=True)
class TrainStats:
    """One result of training: steps trained, and the means of the loss's figures."""

    steps: int
    stats: dict[str, float]
