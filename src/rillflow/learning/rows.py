"""Rows to learn from, counted, chosen and parted; alike in NumPy and in torch.

Rows are columns that agree in their first axis. Rows that still hold `bootstrap_obs` or `state`,
the columns without time, or in which a number of each step, such as its reward, has two axes, are
fragments: every other column is time-major [T, B, ...] and what can be told apart are its
environments, because a sequence is never cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rillflow.experience.batch import TIMELESS, Array
from rillflow.learning.minibatches import minibatches
from rillflow.learning.update import Rows

_OF_EACH_STEP = ("rewards", "terminated", "truncated", "valid", "starts", "logp")
"""columns with one number for each step"""


def time_major(rows: Mapping[str, Any]) -> bool:
    """Whether these rows are fragments, with time first and environments second."""
    if not TIMELESS.isdisjoint(rows):
        return True
    # asked of each minibatch, where a generator would take its time
    for name in _OF_EACH_STEP:  # noqa: SIM110
        if name in rows and len(rows[name].shape) > 1:
            return True
    return False


def count(rows: Mapping[str, Any]) -> int:
    """How many examples there are: rows, or environments of fragments."""
    name = next(iter(rows))
    return int(rows[name].shape[1 if time_major(rows) and name not in TIMELESS else 0])


def take(rows: Mapping[str, Any], chosen: Any) -> Rows:
    """Some of the examples."""
    if not time_major(rows):
        if type(chosen) is np.ndarray:  # `take` copies rows in a third of the time
            return Rows({name: column.take(chosen, 0) for name, column in rows.items()})
        return Rows({name: column[chosen] for name, column in rows.items()})
    return Rows(
        {
            name: column[chosen] if name in TIMELESS else column[:, chosen]
            for name, column in rows.items()
        }
    )


def weight(rows: Mapping[str, Any]) -> int:
    """How much a mean over these rows counts: their number, without those that are not valid."""
    if "valid" in rows:
        return int(rows["valid"].sum())
    return count(rows)


def orders(
    rows: Mapping[str, Any], size: int | None, rng: np.random.Generator
) -> Iterator[Array | None]:
    """Which examples are in each minibatch of one pass; None: all of them, as they are.

    `size` counts rows; of fragments, so many environments are taken that it is not exceeded. What
    is left over after the last whole minibatch is not learned from in this pass.
    """
    if size is None:
        yield None
        return
    if time_major(rows):
        time = next((len(rows[name]) for name in rows if name not in TIMELESS), 1)
        size = max(1, size // max(1, time))
    yield from minibatches(count(rows), size, rng)
