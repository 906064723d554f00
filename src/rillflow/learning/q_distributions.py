"""Q learning of distributions of returns (Bellemare et al. 2017, arXiv:1707.06887)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rillflow.learning import losses
from rillflow.learning.update import Rows, Step

if TYPE_CHECKING:
    from rillflow.learning.q_learning import QNetworkConfig


def categorical_step(m: Any, rows: Rows, cfg: QNetworkConfig) -> Step:
    """How far the distributions are from their targets, weighted by how likely each row was drawn.

    These distances are priorities too. The figure `clipped_mass` says how much of the targets lies
    beyond `v_min` and `v_max`, where all returns are taken for the end.
    """
    low, high = m.policy.spec.support
    logits = m.policy.q_logits(rows.obs)
    target, clipped = losses.categorical_target(
        rows.next_logits, _chooser(m, rows, cfg), rows.rewards, rows.discount, low, high
    )
    errors = losses.categorical_error(logits, rows.actions, target)
    weights = rows.get("weights")
    weighted = errors if weights is None else errors * weights
    loss = losses.mean(weighted, rows.get("valid"))
    q = losses.expected_values(logits.detach(), low, high)
    stats = {
        "loss": loss,
        "mean_q": losses.mean(q, m.policy.action_mask(rows.obs)),
        "clipped_mass": losses.mean(clipped, rows.get("valid")),
        "td_errors": errors,
    }
    if "keys" in rows:
        stats["keys"] = rows["keys"]
    return Step(loss, trains="policy", stats=stats)


def _chooser(m: Any, rows: Rows, cfg: QNetworkConfig) -> Any:
    """Values by which the best next action is picked; what is forbidden is never the best."""
    network = m.frozen.policy if cfg.double_q else m.target.policy
    return network.q_values(rows.next_obs)
