"""From fragments of experience to rows that each stand alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.experience import n_step_transitions
from rillflow.experience.batch import ACTION_VALUES, NEXT_OBS, TIMELESS, Array, SampleBatch
from rillflow.experience.stacked_frames import over_shared_frames

_NOT_STORED = TIMELESS | {"valid", "logp", "starts", ACTION_VALUES}


def transitions(batch: SampleBatch, n_step: int, gamma: float) -> dict[str, Any]:
    """Columns [N, ...] with a row for each step: observation, action, rewards and discount over
    `n_step` steps, and the observation after them.

    Steps that are not valid are left out: those that only reset an environment, and those at the
    end that are there for the ones before them to look at (see `WaitingSteps`). Columns of stacked
    observations are `Stacks`, whose rows share frames.
    """
    columns = {name: c for name, c in batch.columns.items() if name not in _NOT_STORED}
    columns[NEXT_OBS] = batch.what_followed()
    arrays, stacked = over_shared_frames(columns)
    if not stacked:
        return _rows(batch, arrays, n_step, gamma)
    first = arrays[stacked[0]]  # places are columns like others
    rows = _rows(batch, arrays | {name: arrays[name].places for name in stacked}, n_step, gamma)
    return rows | {name: first.at(rows[name]) for name in stacked}


def _rows(
    batch: SampleBatch, columns: dict[str, Array], n_step: int, gamma: float
) -> dict[str, Array]:
    if "valid" not in batch:
        return n_step_transitions(columns, n_step, gamma)
    kept = np.flatnonzero(batch["valid"])
    lanes = batch.shape[1]
    # behind the last valid step stand those that wait for the next fragment: no rows of them
    first = -(-int(kept[-1] + 1) // lanes) if len(kept) else 0
    rows = n_step_transitions(columns, n_step, gamma, first)
    if len(kept) < first * lanes:
        rows = {name: column[kept] for name, column in rows.items()}
    return rows


def worker_errors(rows: dict[str, Array], rewards: Array | None = None) -> Array | None:
    """TD errors of rows by the values that the worker told with them, which are taken out.

        error = rewards + discount * max_a q(next_obs, a) - q(obs, action)

    All values are those of the worker's own network, when it acted; None: it told none.

    Args:
        rows: with the columns `acted_q` and `next_best_q`, if the worker told them.
        rewards: as the values were learned from them; None: as they are in the rows.
    """
    if "acted_q" not in rows:
        return None
    rewards = rows["rewards"] if rewards is None else rewards
    errors: Array = rewards + rows["discount"] * rows.pop("next_best_q")
    return errors - rows.pop("acted_q")
