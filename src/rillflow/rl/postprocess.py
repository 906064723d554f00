"""From fragments of experience to rows to learn from; torch is imported when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rillflow.batch import BOOTSTRAP

if TYPE_CHECKING:
    import torch

Rows = dict[str, "torch.Tensor"]


def actor_critic_rows(policy: Any, batch: Rows, gamma: float, lam: float) -> Rows:
    """Generalised advantages and value targets of a time-major batch, as flat rows.

    Values of all observations, and of the true next ones, come from one pass over the network.
    Steps that only reset an environment are left out.
    """
    from rillflow import losses

    before, after = _values(policy, batch)
    ended = batch["terminated"] | batch["truncated"]
    valid = batch.get("valid")
    if valid is not None:
        ended = ended | ~valid
    advantages, targets = losses.gae(
        batch["rewards"], before, after, batch["terminated"], ended, gamma, lam
    )
    rows = {
        "obs": batch["obs"],
        "actions": batch["actions"],
        "logp": batch["logp"],
        "values": before,
        "advantages": advantages,
        "targets": targets,
    }
    flat = {name: column.flatten(0, 1) for name, column in rows.items()}
    if valid is None:
        return flat
    chosen = valid.flatten().nonzero().squeeze(1)
    return {name: column[chosen] for name, column in flat.items()}


def standardized(x: torch.Tensor) -> torch.Tensor:
    """Mean 0, standard deviation 1."""
    return (x - x.mean()) / (x.std() + 1e-8)


def _values(policy: Any, batch: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    """Values of each observation and of the true next observation: both [T, B]."""
    import torch

    with torch.no_grad():
        if "next_obs" in batch:
            both = policy.values(torch.cat([batch["obs"], batch["next_obs"]]))
            before, after = both.chunk(2)
        else:
            # the next observation of step t is the observation of step t + 1
            whole = policy.values(torch.cat([batch["obs"], batch[BOOTSTRAP][None]]))
            before, after = whole[:-1], whole[1:]
    return before, after
