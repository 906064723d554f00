"""Losses of recorded data, in NumPy; `offline` says what they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rillflow.learning.losses.checks_in_numpy import FLOAT, array_of, check_arrays, check_floats
from rillflow.learning.losses.node import node, nodes
from rillflow.learning.tape import Array, Var
from rillflow.policies.shape_checks import check_same_shape, check_shape

Given = Var | Array


def advantage_weights(advantages: Given, beta: float, most: float) -> Array:
    """`offline.advantage_weights`."""
    gain = array_of(advantages)
    if gain.dtype is not FLOAT:
        check_floats("advantage_weights", advantages=advantages)
    weights: Array = np.exp(np.minimum(np.float32(beta) * gain, np.float32(math.log(most))))
    return weights


def expectile_loss(v: Given, target: Given, tau: float) -> Any:
    """`offline.expectile_loss`."""
    x, y = array_of(v), array_of(target)
    if not (x.dtype is y.dtype is FLOAT and x.shape == y.shape):
        check_floats("expectile_loss", v=v, target=target)
        check_same_shape("expectile_loss", v=x, target=y)
    errors = x - y
    weighted = np.where(errors > 0, np.float32(1 - tau), np.float32(tau)) * errors
    share = 1.0 / (errors.size or 1)
    value = np.vdot(weighted, errors) * (0.5 * share)
    return node(value, v, lambda g: weighted * np.float32(g * share))


def conservative_loss(q: Given, logp: Given, q_data: Given) -> Any:
    """`offline.conservative_loss`."""
    values, chances, data = array_of(q), array_of(logp), array_of(q_data)
    if not (values.dtype is chances.dtype is data.dtype is FLOAT and values.ndim == 3):
        check_floats("conservative_loss", q=q, logp=logp, q_data=q_data)
    check_shape("conservative_loss", values.shape[1:], "q of one critic", logp=chances)
    rows = values.shape[0], values.shape[2]
    check_shape("conservative_loss", rows, "critics and rows", q_data=data)
    above = values - chances
    largest = above.max(1)
    parts = np.exp(above - largest[:, None])
    total = parts.sum(1)
    soft = largest + np.log(total) - np.float32(math.log(values.shape[1]))
    share = 1.0 / (rows[1] or 1)
    parts /= total[:, None]
    return nodes(
        np.add.reduce(soft - data, None) * share,
        (q, lambda g: parts * np.float32(g * share)),
        (q_data, lambda g: np.full(rows, np.float32(-g * share))),
    )


def repeated(x: Array, times: int) -> Array:
    """`offline.repeated`."""
    rows = array_of(x)
    if rows.dtype is not FLOAT:
        check_arrays("repeated", x=x)
    return np.tile(rows, (times, *[1] * (rows.ndim - 1)))


def joined(a: Given, b: Given) -> Array:
    """`offline.joined`."""
    rows, others = array_of(a), array_of(b)
    if not (rows.dtype is others.dtype is FLOAT):
        check_arrays("joined", a=a, b=b)
    check_shape("joined", others.shape[:1] + rows.shape[1:], "rows of a", b=others)
    return np.concatenate([rows, others])
