"""Losses with their slopes: what `losses` says in torch, and how it changes with its argument.

Where a mean may leave rows out, `share` says how much each of them counts; None: all the same.
"""

from __future__ import annotations

import numpy as np

from rillflow.policies.sampling import Array, Floats


def shares(mask: Array) -> Floats:
    """How much each row [N] counts in a mean over those of a mask; nothing if there are none."""
    share: Floats = mask * np.float32(1 / max(1, int(mask.sum())))
    return share


def policy_gradient_loss(
    logp: Floats, advantages: Floats, share: Floats | None = None
) -> tuple[Floats, Floats]:
    """`losses.policy_gradient_loss`, and its slope in `logp`."""
    slope = advantages * (np.float32(-1 / len(logp)) if share is None else -share)
    return logp @ slope, slope


def clipped_surrogate_loss(
    logp: Floats, old_logp: Floats, advantages: Floats, clip: float
) -> tuple[Floats, Floats]:
    """`losses.clipped_surrogate_loss`, and its slope in `logp`."""
    ratio = np.exp(logp - old_logp)
    free = ratio * advantages
    clipped = np.clip(ratio, np.float32(1 - clip), np.float32(1 + clip)) * advantages
    scale = np.float32(-1 / len(logp))
    worst = np.minimum(free, clipped)
    # where clipping decides, the ratio no longer matters; elsewhere its slope is itself
    slope = free * (free <= clipped)
    slope *= scale
    return worst.sum() * scale, slope


def approximate_kl(old_logp: Floats, logp: Floats, share: Floats | None = None) -> Floats:
    """`losses.approximate_kl`."""
    log_ratio = logp - old_logp
    terms = np.expm1(log_ratio) - log_ratio
    kl: Floats = terms.mean() if share is None else terms @ share
    return kl


def value_loss(
    values: Floats, targets: Floats, share: Floats | None = None
) -> tuple[Floats, Floats]:
    """`losses.value_loss`, and its slope in `values`."""
    errors = values - targets
    slope = errors * (np.float32(1 / len(values)) if share is None else share)
    return errors @ slope * np.float32(0.5), slope


def td_errors(
    q: Floats, actions: Array, rewards: Floats, discount: Floats, next_values: Floats
) -> Floats:
    """`r + discount * v - q(a)` for q values [actions, N]."""
    errors: Floats = rewards + discount * next_values - q[actions, np.arange(len(actions))]
    return errors


def huber_loss(errors: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """The weighted mean of `losses.huber`, and its slope in `errors`."""
    size = np.abs(errors)
    near = np.minimum(size, np.float32(1))
    costs = near * (size - np.float32(0.5) * near)
    slope = np.copysign(near, errors)
    if weights is not None:
        costs *= weights
        slope *= weights
    slope *= np.float32(1 / len(errors))
    return np.add.reduce(costs) * np.float32(1 / len(costs)), slope
