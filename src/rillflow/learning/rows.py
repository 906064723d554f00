"""Rows of tensors, as postprocessors give them: counted, chosen and parted.

Rows are a dict of tensors that agree in their first axis. Rows that still hold `bootstrap_obs` or
`state`, the columns without time, are a fragment: every other column is time-major [T, B, ...] and
what can be told apart are its environments, because a sequence is never cut.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from rillflow.experience.batch import TIMELESS
from rillflow.learning.minibatches import minibatches

Rows = dict[str, torch.Tensor]


def time_major(rows: Rows) -> bool:
    """Whether these rows are a fragment, with time first and environments second."""
    return not TIMELESS.isdisjoint(rows)


def count(rows: Rows) -> int:
    """How many examples there are: rows, or environments of a fragment."""
    name = next(iter(rows))
    return rows[name].shape[1 if time_major(rows) and name not in TIMELESS else 0]


def take(rows: Rows, chosen: torch.Tensor | slice) -> Rows:
    """Some of the examples."""
    if isinstance(chosen, torch.Tensor):
        chosen = chosen.to(next(iter(rows.values())).device)  # once, not once per column
    if not time_major(rows):
        return {name: column[chosen] for name, column in rows.items()}
    return {
        name: column[chosen] if name in TIMELESS else column[:, chosen]
        for name, column in rows.items()
    }


def weight(rows: Rows) -> int:
    """How much a mean over these rows counts: their number, without those that are not valid."""
    if "valid" in rows:
        return int(rows["valid"].count_nonzero())
    return count(rows)


def move(rows: Rows, device: torch.device) -> Rows:
    """The same rows on a device; where they are there already, the same tensors."""
    return {name: column.to(device) for name, column in rows.items()}


def orders(rows: Rows, size: int | None, rng: np.random.Generator) -> Iterator[torch.Tensor | None]:
    """Which examples are in each minibatch of one pass; None: all of them, as they are.

    `size` counts rows; of a fragment, so many environments are taken that it is not exceeded. What
    is left over after the last whole minibatch is not learned from in this pass.
    """
    number = count(rows)
    if size is not None and time_major(rows):
        time = next((len(rows[name]) for name in rows if name not in TIMELESS), 1)
        size = max(1, size // max(1, time))
    for chosen in minibatches(number, size, rng):
        yield None if chosen is None else torch.from_numpy(chosen)
