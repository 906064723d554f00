"""What losses tell about themselves, joined to the figures of one training result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rillflow.experience.batch import Array
from rillflow.learning import losses
from rillflow.learning.results import RowStats, TrainStats
from rillflow.learning.skips import finite_rows

Figures = dict[str, Any]
"""of one update: a number each, or one for each row"""


def result_of(
    steps: int, figures: list[Figures], made: Sequence[bool], array: Callable[[Any], Array]
) -> TrainStats:
    """Means of the figures that are one number per update; those of each row, one after another.

    Updates that were not made have no part in the means.
    """
    single: list[str] = []
    each: list[str] = []
    for told in figures:
        for name, value in told.items():
            if name not in single and name not in each:
                (each if len(value.shape if hasattr(value, "shape") else ()) else single).append(
                    name
                )
    rows = {name: _joined([array(told[name]) for told in figures if name in told]) for name in each}
    if not all(made):
        figures = [told for told, fine in zip(figures, made, strict=True) if fine]
        rows = finite_rows(rows)
    means = {name: mean for name in single if (mean := _mean(figures, name)) is not None}
    return RowStats(steps, means, rows) if rows else TrainStats(steps, means)


def td_figures(q: Any, target: Any, rows: Mapping[str, Any]) -> Figures:
    """What critics tell: their mean; and for prioritized replay, errors of rows by their keys."""
    values = q.detach()
    figures: Figures = {"mean_q": losses.mean(values)}
    if "keys" in rows:
        first = values if values.ndim == 1 else values[0]
        figures |= {"td_errors": target - first, "keys": rows["keys"]}
    return figures


def _joined(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _mean(figures: list[Figures], name: str) -> float | None:
    values = [told[name] for told in figures if name in told]
    if not values:
        return None
    return math.fsum(map(float, values)) / len(values)
