"""From what was sampled to rows to learn from, once per batch; written for both frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rillflow.learning import losses
from rillflow.learning.update import Rows


def fragments(m: Any, batch: Mapping[str, Any], cfg: Any) -> Rows:
    """Fragments as they are, time-major: for losses that look along them."""
    return Rows(batch)


def flat_rows(m: Any, batch: Mapping[str, Any], cfg: Any) -> Rows:
    """Batches from replay, which are rows already: without the time axis."""
    return Rows({name: flattened(column) for name, column in batch.items()})


def actor_critic_rows(policy: Any, batch: Mapping[str, Any], gamma: float, lam: float) -> Rows:
    """Generalised advantages and value targets of a time-major batch, as flat rows.

    Values of all observations, and of the true next ones, come from one pass over the network.
    Steps that only reset an environment are left out.
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
    flat = {name: flattened(column) for name, column in columns.items()}
    if valid is not None and not valid.all():
        chosen = flattened(valid)
        flat = {name: column[chosen] for name, column in flat.items()}
    return Rows(flat)


def flattened(column: Any) -> Any:
    """Without the time axis."""
    return column.reshape(-1, *column.shape[2:])
