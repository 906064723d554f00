"""Losses of a policy, its entropy, and how far it has moved, in NumPy; see `policy`.

Arrays [..., A] are worked on transposed, axis 0 first: networks in NumPy give views [N, A] of
arrays [A, N], whose long axis is the fast one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rillflow.learning.losses.checks_in_numpy import (
    FLOAT,
    array_of,
    check_bools,
    check_floats,
    check_floats_alike,
)
from rillflow.learning.losses.node import node, nodes
from rillflow.learning.losses.reduce_in_numpy import average, kept, masked_mean
from rillflow.learning.tape import Array, Var
from rillflow.policies.shape_checks import check_last_dim, check_positive

Given = Var | Array
Mask = Array | None
ENTROPY_OF_ONE = 0.5 * (1 + math.log(2 * math.pi))
"""of a Gaussian with standard deviation 1"""


def policy_gradient_loss(logp: Given, advantages: Given, mask: Mask = None) -> Any:
    """`policy.policy_gradient_loss`."""
    x, gain = array_of(logp), array_of(advantages)
    if not (x.dtype is gain.dtype is FLOAT and x.shape == gain.shape):
        check_floats_alike("policy_gradient_loss", logp=logp, advantages=advantages)
    value, share = average(x * gain, mask)
    return node(-value, logp, lambda g: kept(gain, mask) * (-g * share))


def clipped_surrogate_loss(
    logp: Given, old_logp: Given, advantages: Given, clip: float, mask: Mask = None
) -> Any:
    """`policy.clipped_surrogate_loss`."""
    x, old, gain = array_of(logp), array_of(old_logp), array_of(advantages)
    if not (x.dtype is old.dtype is gain.dtype is FLOAT and x.shape == old.shape == gain.shape):
        check_floats_alike(
            "clipped_surrogate_loss", logp=logp, old_logp=old_logp, advantages=advantages
        )
    if not clip > 0:
        check_positive("clipped_surrogate_loss", clip=clip)
    ratio = np.exp(x - old)
    free = ratio * gain
    clipped = np.minimum(np.maximum(ratio, 1 - clip), 1 + clip)
    clipped *= gain
    value, share = average(np.minimum(free, clipped), mask)

    def pull(g: Any) -> Array:
        # where clipping decides, the ratio no longer matters; elsewhere its slope is itself
        slope: Array = kept(free, mask) * (free <= clipped)
        slope *= -g * share
        return slope

    return node(-value, logp, pull)


def clip_fraction(logp: Given, old_logp: Given, clip: float, mask: Mask = None) -> Any:
    """`policy.clip_fraction`."""
    x, old = array_of(logp), array_of(old_logp)
    if not (x.dtype is old.dtype is FLOAT and x.shape == old.shape):
        check_floats_alike("clip_fraction", logp=logp, old_logp=old_logp)
    if not clip > 0:
        check_positive("clip_fraction", clip=clip)
    outside = np.abs(np.expm1(x - old)) > clip
    return average(outside.astype(x.dtype), mask)[0]


def approximate_kl(old_logp: Given, logp: Given, mask: Mask = None) -> Any:
    """`policy.approximate_kl`."""
    x, old = array_of(logp), array_of(old_logp)
    if not (x.dtype is old.dtype is FLOAT and x.shape == old.shape):
        check_floats_alike("approximate_kl", old_logp=old_logp, logp=logp)
    log_ratio = x - old
    slope = np.expm1(log_ratio)
    value, share = average(slope - log_ratio, mask)
    return node(value, logp, lambda g: kept(slope, mask) * (g * share))


def entropy_bonus(entropy: Given, mask: Mask = None) -> Any:
    """`policy.entropy_bonus`."""
    if array_of(entropy).dtype is not FLOAT:
        check_floats("entropy_bonus", entropy=entropy)
    return masked_mean(entropy, mask)


def entropy_categorical(logits: Given) -> Any:
    """`policy.entropy_categorical`."""
    _check_rows("entropy_categorical", logits=logits)
    logp = _log_softmax(array_of(logits).T)
    p = np.exp(logp)
    logp[p == 0] = 0  # 0 * log(0) is 0 here
    entropy = -np.add.reduce(p * logp, 0)
    return node(entropy.T, logits, lambda g: (p * (logp + entropy) * -_turned(g)).T)


def uniform_entropy(mask: Array) -> Array:
    """`policy.uniform_entropy`."""
    check_bools("uniform_entropy", mask=mask)
    check_last_dim("uniform_entropy", mask=mask)
    entropies: Array = np.log(np.maximum(np.count_nonzero(mask, -1), 1), dtype=np.float32)
    return entropies


def soft_value(logits: Given, q: Given, alpha: float) -> Any:
    """`policy.soft_value`."""
    _check_rows("soft_value", logits=logits, q=q)
    logp = _log_softmax(array_of(logits).T)
    p = np.exp(logp)
    never = p == 0
    logp[never] = 0
    worth = array_of(q).T - alpha * logp
    worth[never] = 0
    value = np.add.reduce(p * worth, 0)
    return node(value.T, logits, lambda g: (p * (worth - value) * _turned(g)).T)


def entropy_gaussian(log_std: Given) -> Any:
    """`policy.entropy_gaussian`."""
    _check_rows("entropy_gaussian", log_std=log_std)
    x = array_of(log_std)
    constant = x.dtype.type(x.shape[-1] * ENTROPY_OF_ONE)
    return node(np.add.reduce(x, -1) + constant, log_std, lambda g: _to_each(g, x.shape))


def kl_categorical(logits_p: Given, logits_q: Given) -> Any:
    """`policy.kl_categorical`."""
    _check_rows("kl_categorical", logits_p=logits_p, logits_q=logits_q)
    logp, logq = _log_softmax(array_of(logits_p).T), _log_softmax(array_of(logits_q).T)
    p, q = np.exp(logp), np.exp(logq)
    never = p == 0
    logp[never] = logq[never] = 0
    distance = logp - logq
    kl = np.add.reduce(p * distance, 0)
    return nodes(
        kl.T,
        (logits_p, lambda g: (p * (distance - kl) * _turned(g)).T),
        (logits_q, lambda g: ((q - p) * _turned(g)).T),
    )


def kl_gaussian(mean_p: Given, log_std_p: Given, mean_q: Given, log_std_q: Given) -> Any:
    """`policy.kl_gaussian`."""
    _check_rows(
        "kl_gaussian", mean_p=mean_p, log_std_p=log_std_p, mean_q=mean_q, log_std_q=log_std_q
    )
    inverse = np.exp(-array_of(log_std_q))
    # z = log(std_p / std_q); expm1 keeps the digits of nearly equal distributions
    z = array_of(log_std_p) - array_of(log_std_q)
    wider = np.expm1(2 * z)
    distance = (array_of(mean_p) - array_of(mean_q)) * inverse
    farther = distance * distance
    return nodes(
        np.add.reduce(0.5 * (wider + farther) - z, -1),
        (mean_p, lambda g: distance * inverse * _to_each(g, z.shape)),
        (log_std_p, lambda g: wider * _to_each(g, z.shape)),
        (mean_q, lambda g: -distance * inverse * _to_each(g, z.shape)),
        (log_std_q, lambda g: -(wider + farther) * _to_each(g, z.shape)),
    )


def _check_rows(where: str, **rows: Given) -> None:
    """Floats [..., A] of one shape."""
    check_floats_alike(where, **rows)
    check_last_dim(where, **{name: array_of(x) for name, x in rows.items()})


def _log_softmax(logits: Array) -> Array:
    """Along axis 0."""
    logp: Array = logits - np.maximum.reduce(logits, 0)
    logp -= np.log(np.add.reduce(np.exp(logp), 0))
    return logp


def _turned(g: Any) -> Any:
    return g.T if isinstance(g, np.ndarray) else g


def _to_each(g: Any, shape: tuple[int, ...]) -> Any:
    """A gradient of rows [...] for each entry [..., A] of them; one number stays one."""
    return np.broadcast_to(g[..., None], shape) if isinstance(g, np.ndarray) else g
