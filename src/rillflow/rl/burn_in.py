"""What came before a fragment, kept so that a sequence in replay can begin there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rillflow.experience.batch import NEXT_OBS, STATE, TIMELESS, Array, SampleBatch


class BurnIn:
    """Puts the last steps of the fragment before in front of a fragment, as rows not `valid`.

    So each step is learned from in one sequence, and each sequence has its burn-in, across the ends
    of fragments. In front of the first fragment are blank rows, which its `starts` make forgotten.

    Args:
        steps: how many.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.rows: dict[str, Array] | None = None
        """the last steps of the fragment before, with the state before them"""

    def before(self, batch: SampleBatch, state: Array) -> SampleBatch:
        """A fragment with what came before it; `state`: what was known so many steps before the
        end of the fragment."""
        time, envs = batch.shape
        own = {name: column for name, column in batch.items() if name != NEXT_OBS}
        own["valid"] = batch["valid"] if "valid" in batch else np.ones((time, envs), bool)
        rows = self._blank(own) if self.rows is None else self.rows
        self.rows = {
            name: column[time - self.steps :].copy()
            for name, column in own.items()
            if name not in TIMELESS
        }
        self.rows["valid"][:] = False
        self.rows[STATE] = state
        columns = {
            name: column if name in TIMELESS else np.concatenate([rows[name], column])
            for name, column in own.items()
        }
        columns[STATE] = rows[STATE]
        if NEXT_OBS in batch:  # of rows that nobody learns from, what is simply the next one
            columns[NEXT_OBS] = np.concatenate(
                [columns["obs"][1 : self.steps + 1], batch[NEXT_OBS]]
            )
        return SampleBatch(columns)

    def _blank(self, own: Mapping[str, Array]) -> dict[str, Array]:
        blank = {
            name: np.zeros((self.steps, *column.shape[1:]), column.dtype)
            for name, column in own.items()
            if name not in TIMELESS
        }
        return blank | {STATE: own[STATE]}

    def get_state(self) -> dict[str, Any]:
        """The steps that come before the next fragment."""
        return {"rows": self.rows}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.rows = None if state["rows"] is None else dict(state["rows"])
