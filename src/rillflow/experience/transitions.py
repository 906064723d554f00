"""From fragments of experience to rows that each stand alone."""

from __future__ import annotations

import numpy as np

from rillflow.experience import n_step_transitions
from rillflow.experience.batch import TIMELESS, Array, SampleBatch

_NOT_STORED = TIMELESS | {"valid", "logp", "starts"}


def transitions(batch: SampleBatch, n_step: int, gamma: float) -> dict[str, Array]:
    """Columns [N, ...] with a row for each step: observation, action, rewards and discount over
    `n_step` steps, and the observation after them.

    Steps that only reset an environment are left out.
    """
    columns = {name: c for name, c in batch.items() if name not in _NOT_STORED}
    columns["next_obs"] = batch.following()
    rows = n_step_transitions(columns, n_step, gamma)
    if "valid" in batch:
        kept = np.flatnonzero(batch["valid"])
        rows = {name: column[kept] for name, column in rows.items()}
    return rows
