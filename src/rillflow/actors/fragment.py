"""The columns of one fragment, written step by step into arrays that are allocated once."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.batch import BOOTSTRAP, STATE, Array, SampleBatch
from rillflow.envs.vector import Step


class FragmentWriter:
    """Takes `length` steps of some environments and gives them as a time-major batch."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.t = 0
        self.columns: dict[str, Array] = {}

    def write(self, obs: Array, actions: Array, logp: Array, step: Step, **more: Array) -> None:
        """One step: what was seen, done, and came of it; `more` are further columns."""
        row: dict[str, Any] = {
            "obs": obs,
            "actions": actions,
            "logp": logp,
            "rewards": step.rewards,
            "terminated": step.terminated,
            "truncated": step.truncated,
            **more,
        }
        if step.valid is not None:
            row["valid"] = step.valid
        if step.next_obs is not None:
            row["next_obs"] = step.next_obs
        if self.t == 0:
            self.columns = {
                name: np.empty((self.length, *value.shape), value.dtype)
                for name, value in row.items()
            }
        for name, value in row.items():
            self.columns[name][self.t] = value
        self.t += 1

    def finish(self, obs: Array, state: Array | None = None) -> SampleBatch:
        """The batch, with the observation after it and the memory before it."""
        self.columns[BOOTSTRAP] = np.array(obs)
        if state is not None:
            self.columns[STATE] = state
        return SampleBatch(self.columns)
