"""Losses with their slopes: what `losses` says in torch, and how it changes with its argument."""

from __future__ import annotations

import numpy as np

from rillflow.policies.sampling import Array, Floats


def policy_gradient_loss(logp: Floats, advantages: Floats) -> tuple[Floats, Floats]:
    """`losses.policy_gradient_loss`, and its slope in `logp`."""
    slope = advantages * np.float32(-1 / len(logp))
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


def approximate_kl(old_logp: Floats, logp: Floats) -> Floats:
    """`losses.approximate_kl`."""
    log_ratio = logp - old_logp
    kl: Floats = (np.expm1(log_ratio) - log_ratio).mean()
    return kl


def value_loss(values: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """`losses.value_loss`, and its slope in `values`."""
    slope = values - targets
    loss = slope @ slope * np.float32(0.5 / len(values))
    slope *= np.float32(1 / len(values))
    return loss, slope


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
