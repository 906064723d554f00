"""What the episode of each environment has brought so far, discounted: the scale of rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.experience.batch import Array, SampleBatch

RUNNING_RETURN = "running_return"
"""the column [T, B]"""


class RunningReturn:
    """The discounted sum of rewards since an episode began, across fragments.

        R_t = gamma * R_t-1 + r_t,    with R_-1 = 0

    >>> column = np.ones((3, 1), np.float32)
    >>> ended = np.array([[False], [True], [False]])
    >>> batch = SampleBatch({"rewards": column, "terminated": ended, "truncated": ended})
    >>> RunningReturn(1).written(batch, 0.5)["running_return"].tolist()
    [[1.0], [1.5], [1.0]]
    """

    def __init__(self, envs: int) -> None:
        self.value: Array = np.zeros(envs)

    def written(
        self, batch: SampleBatch, gamma: float, lead: int = 0, before: SampleBatch | None = None
    ) -> SampleBatch:
        """A fragment with the column; the `lead` first steps are those of `before`, or nothing."""
        rewards = batch["rewards"]
        going_on = ~(batch["terminated"] | batch["truncated"])
        column = np.empty(rewards.shape, np.float32)
        column[:lead] = 0 if before is None else before[RUNNING_RETURN]
        for t in range(lead, len(rewards)):
            self.value = gamma * self.value + rewards[t]
            column[t] = self.value
            self.value = self.value * going_on[t]
        return batch.with_columns(**{RUNNING_RETURN: column})

    def cut(self, rows: Array | None) -> None:
        """Environments failed in these rows: their next episodes begin with nothing."""
        if rows is not None:
            self.value = self.value * ~rows

    def get_state(self) -> Any:
        """For a checkpoint."""
        return self.value

    def set_state(self, state: Any) -> None:
        """Go on from there."""
        self.value = np.asarray(state, np.float64)
