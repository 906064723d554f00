"""From fragments of experience to rows that are whole sequences, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rillflow.experience.batch import BOOTSTRAP, NEXT_OBS, STATE, Array, SampleBatch

_PER_SEQUENCE = ("keys", "weights")


def sequences_of(batch: SampleBatch) -> dict[str, Array]:
    """Columns [B, T, ...] with a row for each environment of a fragment: all that a model with
    memory learns from, what truly followed each step, and the `state` before the first.

    >>> ends = np.zeros((2, 3), bool)
    >>> columns = {"obs": np.ones((2, 3, 4)), "rewards": np.ones((2, 3)), "starts": ends}
    >>> columns |= {"bootstrap_obs": np.ones((3, 4)), "state": np.zeros((3, 8))}
    >>> rows = sequences_of(SampleBatch(columns))
    >>> rows["next_obs"].shape, rows["state"].shape, rows["valid"].shape
    ((3, 2, 4), (3, 8), (3, 2))
    """
    left_out = (STATE, BOOTSTRAP, "logp")
    columns = {name: column for name, column in batch.items() if name not in left_out}
    columns[NEXT_OBS] = batch.following()
    columns.setdefault("valid", np.ones(batch.shape, bool))
    return {name: column.swapaxes(0, 1) for name, column in columns.items()} | {STATE: batch[STATE]}


def side_by_side(rows: Mapping[str, Array]) -> SampleBatch:
    """Sequences as a time-major batch again; their keys and weights stand at every step."""
    time = rows["rewards"].shape[1]
    columns = {}
    for name, column in rows.items():
        if name in _PER_SEQUENCE:
            column = np.repeat(column[None], time, 0)
        elif name != STATE:
            column = np.ascontiguousarray(column.swapaxes(0, 1))
        column.flags.writeable = False  # the batch's own: nobody need copy it
        columns[name] = column
    return SampleBatch(columns)
