"""From what was sampled to rows to learn from, once per batch; written for both frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rillflow.experience.batch import STATE, SampleBatch
from rillflow.experience.transitions import transitions
from rillflow.learning import losses
from rillflow.learning.update import Rows


def fragments(m: Any, batch: Mapping[str, Any], cfg: Any) -> Rows:
    """Fragments as they are, time-major: for losses that look along them."""
    return Rows(batch.items())


def flat_rows(m: Any, batch: Mapping[str, Any], cfg: Any) -> Rows:
    """Batches from replay, which are rows already: without the time axis."""
    return Rows({name: flattened(column) for name, column in batch.items()})


def actor_critic_rows(
    policy: Any,
    batch: Mapping[str, Any],
    gamma: float,
    lam: float,
    *,
    with_values: bool = False,
) -> Rows:
    """Generalised advantages and value targets of a time-major batch, as flat rows.

    Values of all observations, and of the true next ones, come from one pass over the network.
    Steps that only reset an environment are left out. `with_values`, the values of observations
    before learning are a column too, `values_before`. Of a policy that remembers rows stay in their
    sequences, [T, B]: with the `state` before them, `starts`, and `valid` where not all are steps.
    """
    before, after = policy.values_of_fragments(batch)
    ended = batch["terminated"] | batch["truncated"]
    valid = batch.get("valid")
    if valid is not None:
        ended = ended | ~valid
    advantages, targets = losses.gae(
        batch["rewards"], before, after, batch["terminated"], ended, gamma, lam
    )
    columns = {
        "obs": batch["obs"],
        "actions": batch["actions"],
        "logp": batch["logp"],
        "advantages": advantages,
        "targets": targets,
    }
    if with_values:
        columns["values_before"] = before
    if policy.spec.recurrent:
        kept = ("starts", STATE) if valid is None or valid.all() else ("starts", STATE, "valid")
        return Rows(columns | {name: batch[name] for name in kept})
    flat = {name: flattened(column) for name, column in columns.items()}
    if valid is not None and not valid.all():
        chosen = flattened(valid)
        flat = {name: column[chosen] for name, column in flat.items()}
    return Rows(flat)


def n_step_rows(batch: Mapping[str, Any], n_step: int, gamma: float) -> Rows:
    """Fragments as rows that each look `n_step` steps ahead, or to the end of the fragment."""
    first = next(iter(batch.values()))
    if isinstance(first, np.ndarray):
        return Rows(transitions(SampleBatch(batch), n_step, gamma))
    import torch  # it is imported where there are tensors

    columns = {name: column.cpu().numpy() for name, column in batch.items()}
    rows = transitions(SampleBatch(columns), n_step, gamma)
    return Rows({name: torch.from_numpy(c).to(first.device) for name, c in rows.items()})


def discounts(terminated: Any, gamma: float) -> Any:
    """`gamma`, or 0 where an episode terminated."""
    if isinstance(terminated, np.ndarray):
        going_on = (~terminated).astype(np.float32)  # to multiply bools takes three times as long
        going_on *= gamma
        return going_on
    return gamma * (~terminated).float()


def flattened(column: Any) -> Any:
    """Without the time axis."""
    return column.reshape(-1, *column.shape[2:])
