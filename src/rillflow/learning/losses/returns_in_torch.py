"""Returns and advantages, in torch; `returns` says what they are. Nothing is differentiated."""

from __future__ import annotations

import torch
from torch import Tensor

from rillflow.policies.shape_checks import (
    check_fraction,
    check_positive,
    check_shape,
    check_time_major,
)
from rillflow.policies.tensor_checks import check_bools, check_floats


@torch.no_grad()
def discounted_returns(r_t: Tensor, discount_t: Tensor, bootstrap_value: Tensor) -> Tensor:
    """`returns.discounted_returns`."""
    where = "discounted_returns"
    check_floats(where, r_t=r_t, discount_t=discount_t, bootstrap_value=bootstrap_value)
    check_time_major(where, r_t=r_t, discount_t=discount_t)
    check_shape(where, r_t.shape[1:], "one row of r_t", bootstrap_value=bootstrap_value)

    return _accumulate(r_t, discount_t, bootstrap_value)


@torch.no_grad()
def lambda_returns(
    r_t: Tensor, discount_t: Tensor, v_t: Tensor, ended_t: Tensor, lam: float
) -> Tensor:
    """`returns.lambda_returns`."""
    where = "lambda_returns"
    check_floats(where, r_t=r_t, discount_t=discount_t, v_t=v_t)
    check_bools(where, ended_t=ended_t)
    check_time_major(where, r_t=r_t, discount_t=discount_t, v_t=v_t, ended_t=ended_t)
    check_fraction(where, lam=lam)

    decay_t = (lam * discount_t).masked_fill(ended_t, 0)
    return _accumulate(r_t + (discount_t - decay_t) * v_t, decay_t, v_t[-1])


@torch.no_grad()
def n_step_returns(r_t: Tensor, discount_t: Tensor, v_t: Tensor, ended_t: Tensor, n: int) -> Tensor:
    """`returns.n_step_returns`."""
    where = "n_step_returns"
    check_floats(where, r_t=r_t, discount_t=discount_t, v_t=v_t)
    check_bools(where, ended_t=ended_t)
    check_time_major(where, r_t=r_t, discount_t=discount_t, v_t=v_t, ended_t=ended_t)
    check_positive(where, n=n)

    returns = r_t + discount_t * v_t
    for _ in range(min(n, len(r_t)) - 1):
        returns = r_t + discount_t * _following(returns, v_t, ended_t)
    return returns


@torch.no_grad()
def gae(
    r_t: Tensor,
    v_tm1: Tensor,
    v_t: Tensor,
    terminated_t: Tensor,
    ended_t: Tensor,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor]:
    """`returns.gae`."""
    check_floats("gae", r_t=r_t, v_tm1=v_tm1, v_t=v_t)
    check_bools("gae", terminated_t=terminated_t, ended_t=ended_t)
    check_time_major(
        "gae", r_t=r_t, v_tm1=v_tm1, v_t=v_t, terminated_t=terminated_t, ended_t=ended_t
    )
    check_fraction("gae", gamma=gamma, lam=lam)

    delta_t = r_t + gamma * v_t.masked_fill(terminated_t, 0) - v_tm1
    decay_t = torch.full_like(delta_t, gamma * lam).masked_fill(ended_t | terminated_t, 0)
    advantages = _accumulate(delta_t, decay_t, torch.zeros_like(delta_t[-1]))
    return advantages, advantages + v_tm1


@torch.no_grad()
def vtrace(
    log_rhos: Tensor,
    r_t: Tensor,
    discount_t: Tensor,
    v_tm1: Tensor,
    v_t: Tensor,
    ended_t: Tensor,
    *,
    clip_rho: float = 1.0,
    clip_pg_rho: float = 1.0,
    lam: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """`returns.vtrace`."""
    floats = {"log_rhos": log_rhos, "r_t": r_t, "discount_t": discount_t}
    floats |= {"v_tm1": v_tm1, "v_t": v_t}
    check_floats("vtrace", **floats)
    check_bools("vtrace", ended_t=ended_t)
    check_time_major("vtrace", **floats, ended_t=ended_t)
    check_positive("vtrace", clip_rho=clip_rho, clip_pg_rho=clip_pg_rho)
    check_fraction("vtrace", lam=lam)

    rho = log_rhos.exp()
    delta_t = rho.clamp(max=clip_rho) * (r_t + discount_t * v_t - v_tm1)
    decay_t = (discount_t * lam * rho.clamp(max=1)).masked_fill(ended_t, 0)
    vs_tm1 = v_tm1 + _accumulate(delta_t, decay_t, torch.zeros_like(delta_t[-1]))
    q_bootstrap = (1 - lam) * v_t + lam * _following(vs_tm1, v_t, ended_t)
    pg_advantages = rho.clamp(max=clip_pg_rho) * (r_t + discount_t * q_bootstrap - v_tm1)
    return vs_tm1, pg_advantages


def _accumulate(x_t: Tensor, decay_t: Tensor, y: Tensor) -> Tensor:
    """y_t = x_t + decay_t * y_{t+1}, backwards from `y` after the last row."""
    rows = []
    for x, decay in zip(reversed(x_t.unbind()), reversed(decay_t.unbind()), strict=True):
        y = torch.addcmul(x, decay, y)
        rows.append(y)
    return torch.stack(rows[::-1])


def _following(y_t: Tensor, v_t: Tensor, ended_t: Tensor) -> Tensor:
    """`y` of the next row, or `v_t` where that row is of another episode or does not exist."""
    return torch.where(ended_t, v_t, torch.cat([y_t[1:], v_t[-1:]]))
