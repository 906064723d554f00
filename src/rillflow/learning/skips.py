"""Steps of the optimiser that are left out: a loss that is not finite teaches nothing."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from rillflow.errors import RunError
from rillflow.experience.batch import Array
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.results import TrainStats

COUNT = "nonfinite_steps"
"""among the figures of a training result: steps left out so far, once there is one"""
_QUIET = 100
"""batches without such a step after which the next one is told anew"""


class Skips:
    """Counts a learner's steps whose loss or gradient was not finite, and ends a run of them.

    A step that is left out changes neither parameters nor optimiser.
    """

    def __init__(self, config: AlgorithmConfig) -> None:
        self.config = config
        self.count = 0
        """steps left out so far"""
        self._in_a_row = 0
        """batches of which no step was made"""
        self._quiet = _QUIET

    def see(self, sizes: Sequence[float]) -> list[bool]:
        """Which steps of a batch were made, by their sizes: the loss plus the gradient's norm.

        One number that is not finite may spoil all steps of its batch, so batches are what is
        counted in a row.

        Raises:
            RunError: of `max_nonfinite_steps` batches in a row no step was made.
        """
        made = list(map(math.isfinite, sizes))
        if any(made):
            self._in_a_row = 0
        if all(made):
            self._quiet += 1
            return made
        self.count += made.count(False)
        self._in_a_row += not any(made)
        if self._in_a_row >= self.config.max_nonfinite_steps:
            raise self._error()
        if self._quiet >= _QUIET:
            warnings.warn(
                "a loss or a gradient is not finite: the step is left out, weights and optimiser "
                f"stay as they are ({COUNT} counts such steps; {self.config.max_nonfinite_steps} "
                "batches in a row without any other end the run)",
                stacklevel=3,
            )
        self._quiet = 0
        return made

    def _error(self) -> RunError:
        return RunError(
            f"{self._in_a_row} batches in a row gave no loss and gradient that is finite, and "
            f"max_nonfinite_steps={self.config.max_nonfinite_steps}. Nothing was learned from "
            "them: the weights are those from before. Look for rewards and observations that are "
            "inf or nan and for a division by 0 in the loss; a smaller lr (now "
            f"{self.config.lr:g}) or grad_clip (now {self.config.grad_clip}) may help."
        )

    def tell(self, result: TrainStats) -> TrainStats:
        """A result with the count among its figures, if there is something to count."""
        if not self.count:
            return result
        return dataclasses.replace(result, stats={**result.stats, COUNT: float(self.count)})


def finite_rows(rows: Mapping[str, Array]) -> dict[str, Array]:
    """Figures of single rows with 0 for what is not finite.

    As a priority in replay one that is not finite would make all draws useless.
    """
    return {name: np.nan_to_num(array, posinf=0.0, neginf=0.0) for name, array in rows.items()}
