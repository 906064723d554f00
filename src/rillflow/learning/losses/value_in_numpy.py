"""Losses and errors of values, in NumPy; `value` says what they are.

q values [..., A] are worked on transposed, axis 0 first: networks in NumPy give views [N, A] of
arrays [A, N], whose long axis is the fast one. Their gradients are such views, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.learning.few_rows import numbered
from rillflow.learning.losses.checks_in_numpy import (
    FLOAT,
    array_of,
    check_floats,
    check_floats_alike,
    check_ints,
    check_mask,
)
from rillflow.learning.losses.node import node, nodes
from rillflow.learning.losses.reduce_in_numpy import average, kept
from rillflow.learning.losses.rescaling_in_numpy import rescaled, unscaled
from rillflow.learning.tape import HALF, ONE, Array, Number, Var
from rillflow.policies.shape_checks import (
    check_last_dim,
    check_members,
    check_positive,
    check_shape,
)

Given = Var | Array
Mask = Array | None


def value_loss(v: Given, target: Given, mask: Mask = None) -> Any:
    """`value.value_loss`."""
    x, y = array_of(v), array_of(target)
    if not (x.dtype is y.dtype is FLOAT and x.shape == y.shape):
        check_floats_alike("value_loss", v=v, target=target)
    errors = x - y
    if mask is None:
        share = 1.0 / (errors.size or 1)
        return node(np.vdot(errors, errors) * (0.5 * share), v, lambda g: errors * (g * share))
    value, share = average(errors * errors, mask)
    return node(value * 0.5, v, lambda g: kept(errors, mask) * (g * share))


def clipped_value_loss(
    v: Given, old_v: Given, target: Given, clip: float, mask: Mask = None
) -> Any:
    """`value.clipped_value_loss`."""
    x, old, y = array_of(v), array_of(old_v), array_of(target)
    if not (x.dtype is old.dtype is y.dtype is FLOAT and x.shape == old.shape == y.shape):
        check_floats_alike("clipped_value_loss", v=v, old_v=old_v, target=target)
    if not clip > 0:
        check_positive("clipped_value_loss", clip=clip)
    moved = x - old
    errors, near = x - y, old + np.minimum(np.maximum(moved, -clip), clip) - y
    free, bound = errors * errors, near * near
    value, share = average(np.maximum(free, bound), mask)

    def pull(g: Any) -> Array:
        # where clipping decides, values beyond it no longer matter; equal terms share the slope
        slope = np.where(free > bound, errors, near * (np.abs(moved) <= clip))
        slope = np.where(free == bound, 0.5 * (errors + slope), slope)
        pulled: Array = kept(slope, mask) * (g * share)
        return pulled

    return node(value * 0.5, v, pull)


def huber(x: Given, delta: float = 1.0) -> Any:
    """`value.huber`."""
    errors = array_of(x)
    if errors.dtype is not FLOAT:
        check_floats("huber", x=x)
    if not delta > 0:
        check_positive("huber", delta=delta)
    size = np.abs(errors)
    near = np.minimum(size, delta)
    return node(near * (size - 0.5 * near), x, lambda g: np.copysign(near, errors) * g)


def huber_loss(errors: Given, weights: Given | None = None, mask: Array | None = None) -> Any:
    """`value.huber_loss`."""
    x = array_of(errors)
    if x.dtype is not FLOAT:
        check_floats("huber_loss", errors=errors)
    if weights is not None:
        w = array_of(weights)
        if not (w.dtype is FLOAT and w.shape == x.shape):
            check_floats_alike("huber_loss", errors=errors, weights=weights)
    slope = np.minimum(np.maximum(x, -ONE), ONE)
    weighted = slope if weights is None else slope * w
    near = x - HALF * slope
    count = x.size
    if mask is not None:
        check_mask(mask, x)
        weighted, near, count = kept(weighted, mask), kept(near, mask), np.count_nonzero(mask)
    share = 1.0 / (count or 1)
    value = np.vdot(weighted, near) * share
    return node(value, errors, lambda g: weighted * (g * share))


def td_loss(q: Given, target: Given, weights: Given | None = None) -> Any:
    """`value.td_loss`."""
    x, y = array_of(q), array_of(target)
    if not (x.dtype is y.dtype is FLOAT and 0 < x.ndim < 3 and x.shape[-1:] == y.shape):
        check_floats("td_loss", q=q, target=target)
        check_members("td_loss", x, target=y)
    errors = x - y
    slope = errors
    if weights is not None:
        w = array_of(weights)
        if not (w.dtype is FLOAT and w.shape == y.shape):
            check_floats("td_loss", weights=weights)
            check_members("td_loss", x, weights=w)
        slope = errors * w
    share = 1.0 / (y.size or 1)
    return node(np.vdot(errors, slope) * (0.5 * share), q, lambda g: slope * (g * share))


def td_target(rewards: Given, discount: Given | Number, next_values: Given) -> Array:
    """`value.td_target`."""
    r, v = array_of(rewards), array_of(next_values)
    if not (r.dtype is v.dtype is FLOAT and r.shape == v.shape):
        check_floats_alike("td_target", rewards=rewards, next_values=next_values)
    if isinstance(discount, (float, int)):
        d: Any = discount
    else:
        d = array_of(discount)
        if not (d.dtype is FLOAT and d.shape == r.shape):
            check_floats_alike("td_target", rewards=rewards, discount=discount)
    target: Array = r + d * v
    return target


def n_step_td_target(r_tn: Given, discount_tn: Given, v_tn: Given) -> Array:
    """`value.n_step_td_target`."""
    r, d, v = array_of(r_tn), array_of(discount_tn), array_of(v_tn)
    if not (r.dtype is d.dtype is v.dtype is FLOAT and r.shape == d.shape == v.shape):
        check_floats_alike("n_step_td_target", r_tn=r_tn, discount_tn=discount_tn, v_tn=v_tn)
    target: Array = r + d * v
    return target


def q_learning_td_error(
    q_tm1: Given, a_tm1: Array, r_t: Given, discount_t: Given, q_t: Given
) -> Any:
    """`value.q_learning_td_error`."""
    q, following = array_of(q_tm1), array_of(q_t)
    if not (q.dtype is following.dtype is FLOAT and q.size and q.shape == following.shape):
        check_floats_alike("q_learning_td_error", q_tm1=q_tm1, q_t=q_t)
        check_last_dim("q_learning_td_error", q_tm1=q)
    best = np.maximum.reduce(following.T, 0).T
    return _td_error("q_learning_td_error", q_tm1, a_tm1, r_t, discount_t, best)


def double_q_td_error(
    q_tm1: Given,
    a_tm1: Array,
    r_t: Given,
    discount_t: Given,
    q_t_target: Given,
    q_t_selector: Given,
    rescaling: float | None = None,
) -> Any:
    """`value.double_q_td_error`."""
    where = "double_q_td_error"
    q, following, selector = array_of(q_tm1), array_of(q_t_target), array_of(q_t_selector)
    if not (
        q.dtype is following.dtype is selector.dtype is FLOAT
        and q.size
        and q.shape == following.shape == selector.shape
    ):
        check_floats_alike(where, q_tm1=q_tm1, q_t_target=q_t_target, q_t_selector=q_t_selector)
        check_last_dim(where, q_tm1=q)
    best = selector.T.argmax(0).T
    return _td_error(where, q_tm1, a_tm1, r_t, discount_t, following[_at(best)], rescaling)


def q_of_taken(q: Given, actions: Array) -> Any:
    """`value.q_of_taken`."""
    x, a = array_of(q), array_of(actions)
    if type(actions) is not np.ndarray or not (
        x.dtype is FLOAT and x.size and a.dtype.kind == "i" and a.shape == x.shape[:-1]
    ):
        check_floats("q_of_taken", q=q)
        check_ints("q_of_taken", actions=actions)
        check_last_dim("q_of_taken", q=x)
        check_shape("q_of_taken", x.shape[:-1], "q without actions", actions=a)
    at = _at(a)

    def pull(g: Any) -> Array:
        whole: Array = np.zeros_like(x)
        whole[at] = g
        return whole

    return node(x[at], q, pull)


def dueling(value: Given, advantages: Given) -> Any:
    """`value.dueling`."""
    v, a = array_of(value), array_of(advantages)
    if not (v.dtype is a.dtype is FLOAT and a.size and v.shape == a.shape[:-1]):
        check_floats("dueling", value=value, advantages=advantages)
        check_last_dim("dueling", advantages=a)
        check_shape("dueling", a.shape[:-1], "advantages without actions", value=v)
    choices = a.shape[-1]
    turned = a.T
    q = turned + (v.T - np.add.reduce(turned, 0) * (1.0 / choices))

    def pull_value(g: Any) -> Any:
        return np.add.reduce(g, -1) if isinstance(g, np.ndarray) else g * choices

    def pull_advantages(g: Any) -> Any:
        if not isinstance(g, np.ndarray):
            return 0.0
        return (g.T - np.add.reduce(g.T, 0) * (1.0 / choices)).T

    return nodes(q.T, (value, pull_value), (advantages, pull_advantages))


def _td_error(
    where: str,
    q_tm1: Given,
    a_tm1: Array,
    r_t: Given,
    discount_t: Given,
    v_t: Array,
    rescaling: float | None = None,
) -> Any:
    """r_t + discount_t * v_t - q_tm1(a_tm1), with gradients through the last term only."""
    q, a, r, d = array_of(q_tm1), array_of(a_tm1), array_of(r_t), array_of(discount_t)
    if not (
        a.dtype.kind == "i"
        and r.dtype is d.dtype is FLOAT
        and a.shape == r.shape == d.shape == v_t.shape
    ):
        check_ints(where, a_tm1=a_tm1)
        check_floats(where, r_t=r_t, discount_t=discount_t)
        check_shape(where, q.shape[:-1], "q_tm1 without actions", a_tm1=a, r_t=r, discount_t=d)
    at = _at(a)
    if rescaling is None:
        errors = r + d * v_t
    else:
        errors = rescaled(r + d * unscaled(v_t, rescaling), rescaling)
    errors -= q[at]

    def pull(g: Any) -> Array:
        gradient = np.zeros(q.shape[::-1], q.dtype).T
        gradient[at] = -g
        return gradient

    return node(errors, q_tm1, pull)


def _at(actions: Array) -> tuple[Array, ...]:
    """Where the entries of these actions [...] are in an array [..., A]."""
    if actions.ndim == 1:
        return numbered(len(actions)), actions
    return *np.indices(actions.shape, sparse=True), actions
