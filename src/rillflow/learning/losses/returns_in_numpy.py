"""Returns and advantages, in NumPy; `returns` says what they are. Nothing is differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.learning.losses.checks_in_numpy import (
    BOOL,
    FLOAT,
    array_of,
    check_bools,
    check_floats,
)
from rillflow.learning.tape import Array, Var
from rillflow.policies.shape_checks import (
    check_fraction,
    check_positive,
    check_shape,
    check_time_major,
)

Given = Var | Array


def discounted_returns(r_t: Given, discount_t: Given, bootstrap_value: Given) -> Array:
    """`returns.discounted_returns`."""
    where = "discounted_returns"
    check_floats(where, bootstrap_value=bootstrap_value)
    rewards, discounts = _time_major(where, {"r_t": r_t, "discount_t": discount_t})
    last = array_of(bootstrap_value)
    check_shape(where, rewards.shape[1:], "one row of r_t", bootstrap_value=last)

    returns = rewards.copy()
    returns[-1] += discounts[-1] * last
    return _accumulate(returns, discounts)


def lambda_returns(r_t: Given, discount_t: Given, v_t: Given, ended_t: Array, lam: float) -> Array:
    """`returns.lambda_returns`."""
    floats = {"r_t": r_t, "discount_t": discount_t, "v_t": v_t}
    rewards, discounts, after, ended = _time_major("lambda_returns", floats, ended_t=ended_t)
    check_fraction("lambda_returns", lam=lam)

    decay = np.where(ended, 0, discounts * lam)
    decay[-1] = 0  # nothing is carried over from beyond the last row
    return _accumulate(rewards + (discounts - decay) * after, decay)


def n_step_returns(r_t: Given, discount_t: Given, v_t: Given, ended_t: Array, n: int) -> Array:
    """`returns.n_step_returns`."""
    floats = {"r_t": r_t, "discount_t": discount_t, "v_t": v_t}
    rewards, discounts, after, ended = _time_major("n_step_returns", floats, ended_t=ended_t)
    check_positive("n_step_returns", n=n)

    returns: Array = rewards + discounts * after
    for _ in range(min(n, len(rewards)) - 1):
        returns = rewards + discounts * _following(returns, after, ended)
    return returns


def gae(
    r_t: Given,
    v_tm1: Given,
    v_t: Given,
    terminated_t: Array,
    ended_t: Array,
    gamma: float,
    lam: float,
) -> tuple[Array, Array]:
    """`returns.gae`."""
    rewards, before, after, terminated, ended = _time_major(
        "gae",
        {"r_t": r_t, "v_tm1": v_tm1, "v_t": v_t},
        terminated_t=terminated_t,
        ended_t=ended_t,
    )
    if not (0 <= gamma <= 1 and 0 <= lam <= 1):
        check_fraction("gae", gamma=gamma, lam=lam)

    advantages = np.where(terminated, 0, after)
    advantages *= gamma
    advantages += rewards
    advantages -= before
    decay = ~(ended | terminated) * before.dtype.type(gamma * lam)
    _accumulate(advantages, decay)
    return advantages, advantages + before


def vtrace(
    log_rhos: Given,
    r_t: Given,
    discount_t: Given,
    v_tm1: Given,
    v_t: Given,
    ended_t: Array,
    *,
    clip_rho: float = 1.0,
    clip_pg_rho: float = 1.0,
    lam: float = 1.0,
) -> tuple[Array, Array]:
    """`returns.vtrace`."""
    log_ratios, rewards, discounts, before, after, ended = _time_major(
        "vtrace",
        {"log_rhos": log_rhos, "r_t": r_t, "discount_t": discount_t, "v_tm1": v_tm1, "v_t": v_t},
        ended_t=ended_t,
    )
    if not (clip_rho > 0 and clip_pg_rho > 0 and 0 <= lam <= 1):
        check_positive("vtrace", clip_rho=clip_rho, clip_pg_rho=clip_pg_rho)
        check_fraction("vtrace", lam=lam)

    rho = np.exp(log_ratios)
    trace = np.minimum(rho, 1)  # the other ceilings are most often the same
    further = rewards - before
    change = discounts * after
    change += further
    change *= trace if clip_rho == 1 else np.minimum(rho, clip_rho)
    decay = discounts * trace
    np.putmask(decay, ended, 0)
    if lam != 1:
        decay *= lam
    targets: Array = before + _accumulate(change, decay)
    following = _following(targets, after, ended)
    if lam != 1:
        following = (1 - lam) * after + lam * following
    following *= discounts
    following += further
    following *= trace if clip_pg_rho == 1 else np.minimum(rho, clip_pg_rho)
    return targets, following


def _time_major(where: str, floats: dict[str, Given], **bools: Array) -> list[Any]:
    """The arrays [T, B], floats first, checked."""
    given = list(map(array_of, floats.values()))
    flags = list(map(array_of, bools.values()))
    shape = given[0].shape
    fine = len(shape) == 2 and shape[0] > 0
    for x in given:
        fine = fine and x.dtype is FLOAT and x.shape == shape
    for x in flags:
        fine = fine and x.dtype is BOOL and x.shape == shape
    if fine:
        return given + flags
    check_floats(where, **floats)
    check_bools(where, **bools)
    arrays = {name: array_of(x) for name, x in (floats | bools).items()}
    check_time_major(where, **arrays)
    return list(arrays.values())


def _accumulate(x: Array, decay: Array) -> Array:
    """x_t += decay_t * x_{t+1}, backwards, in place."""
    rows = list(x)[::-1]  # views, found once
    free = np.empty_like(rows[0])
    for row, after, part in zip(rows[1:], rows, list(decay)[-2::-1], strict=False):
        np.multiply(part, after, free)
        np.add(row, free, row)
    return x


def _following(y: Array, after: Array, ended: Array) -> Array:
    """`y` of the next row, or `after` where that row is of another episode or does not exist."""
    following = np.empty_like(after)
    following[:-1] = y[1:]
    following[-1] = after[-1]
    np.putmask(following, ended, after)
    return following
