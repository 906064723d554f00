"""Steps of the optimiser that are left out: a loss that is not finite teaches nothing."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from rillflow.batch import Array
from rillflow.errors import RunError
from rillflow.rl.config import AlgorithmConfig
from rillflow.rl.results import TrainStats

COUNT = "nonfinite_steps"
"""among the figures of a training result: steps left out so far, once there is one"""
_QUIET = 100
"""steps made in a row after which the next one that is left out is told anew"""


class Skips:
    """Counts a learner's steps whose loss or gradient was not finite, and ends a run of them.

    A step that is left out changes neither parameters nor optimiser.
    """

    def __init__(self, config: AlgorithmConfig) -> None:
        self.config = config
        self.count = 0
        """so far"""
        self._in_a_row = 0
        self._quiet = _QUIET

    def see(self, sizes: Sequence[float]) -> list[bool]:
        """Which steps were made, by the size of each: its loss plus the norm of its gradient.

        Raises:
            RunError: `max_nonfinite_steps` in a row were not.
        """
        made = list(map(math.isfinite, sizes))
        if made and all(made):
            self._in_a_row = 0
            self._quiet += len(made)
            return made
        for fine in made:
            if fine:
                self._in_a_row = 0
                self._quiet += 1
            else:
                self._skip()
        return made

    def _skip(self) -> None:
        self.count += 1
        self._in_a_row += 1
        if self._in_a_row >= self.config.max_nonfinite_steps:
            raise RunError(
                f"{self._in_a_row} steps of the optimiser in a row had a loss or a gradient that "
                f"is not finite, and max_nonfinite_steps={self.config.max_nonfinite_steps}. None "
                "of them was made: the weights are those from before. Look for rewards and "
                "observations that are inf or nan and for a division by 0 in the loss; a smaller "
                f"lr (now {self.config.lr:g}) or grad_clip (now {self.config.grad_clip}) may help."
            )
        if self._quiet >= _QUIET:
            warnings.warn(
                "a loss or a gradient is not finite: the step is left out, weights and optimiser "
                f"stay as they are ({COUNT} counts such steps; max_nonfinite_steps="
                f"{self.config.max_nonfinite_steps} in a row end the run)",
                stacklevel=4,
            )
        self._quiet = 0

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
