"""Returns and advantages: what a step was worth, from the rewards and values that followed.

Everything is time-major, [T, B]: T steps of B environments. Names carry the time: the action
taken at `tm1` leads to the reward `r_t` and to the next observation, valued `v_t`.

`v_t` is the value of the *true* next observation: within an episode that of the next row, at the
end of an episode that of its final observation, not of the first one after the reset. Two masks
tell the ends apart:

- where an episode **terminated** nothing follows: `terminated_t` is true, or `discount_t` is 0;
- where it **ended** (terminated, truncated by a time limit, or cut by an automatic reset) the next
  row belongs to another episode: `ended_t` is true, and nothing is carried over from that row.

So truncation bootstraps from `v_t`, termination does not, and neither leaks. The last row
bootstraps from `v_t` in the same way. All results are targets: no gradient flows through them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rillflow.policies.tensor_checks import (
    check_bools,
    check_floats,
    check_fraction,
    check_positive,
    check_shape,
    check_time_major,
)


@torch.no_grad()
def discounted_returns(r_t: Tensor, discount_t: Tensor, bootstrap_value: Tensor) -> Tensor:
    """Discounted sums of rewards (Sutton and Barto 2018, equation 3.9).

        G_t = r_t + discount_t * G_{t+1},    with `bootstrap_value` after the last row.

    An episode that ends inside must have terminated (discount 0). For rows with truncation
    use `lambda_returns` with lam=1, which bootstraps there.

    Args:
        r_t: rewards [T, B].
        discount_t: discounts [T, B], gamma or 0 where the episode terminated.
        bootstrap_value: value of the observation after the last row [B].

    Returns:
        The returns [T, B].
    """
    where = "discounted_returns"
    check_floats(where, r_t=r_t, discount_t=discount_t, bootstrap_value=bootstrap_value)
    check_time_major(where, r_t=r_t, discount_t=discount_t)
    check_shape(where, r_t.shape[1:], "one row of r_t", bootstrap_value=bootstrap_value)

    return _accumulate(r_t, discount_t, bootstrap_value)


@torch.no_grad()
def lambda_returns(
    r_t: Tensor, discount_t: Tensor, v_t: Tensor, ended_t: Tensor, lam: float
) -> Tensor:
    """Lambda returns: n-step returns of every n, mixed (Sutton and Barto 2018, section 12.1).

        G_t = r_t + discount_t * ((1 - lam) * v_t + lam * G_{t+1}),

    where `v_t` stands for G_{t+1} if the episode ended at t, and after the last row.

    Args:
        r_t: rewards [T, B].
        discount_t: discounts [T, B], gamma or 0 where the episode terminated.
        v_t: values of the true next observations [T, B].
        ended_t: where the episode ended, for whatever reason: booleans [T, B].
        lam: 0 for one-step returns, 1 for the longest ones.

    Returns:
        The returns [T, B].
    """
    where = "lambda_returns"
    check_floats(where, r_t=r_t, discount_t=discount_t, v_t=v_t)
    check_bools(where, ended_t=ended_t)
    check_time_major(where, r_t=r_t, discount_t=discount_t, v_t=v_t, ended_t=ended_t)
    check_fraction(where, lam=lam)

    decay_t = (lam * discount_t).masked_fill(ended_t, 0)
    return _accumulate(r_t + (discount_t - decay_t) * v_t, decay_t, v_t[-1])


@torch.no_grad()
def n_step_returns(r_t: Tensor, discount_t: Tensor, v_t: Tensor, ended_t: Tensor, n: int) -> Tensor:
    """Returns of n steps, bootstrapped (Mnih et al. 2016, arXiv:1602.01783).

        G_t = r_t + d_t * r_{t+1} + ... + d_t * ... * d_{t+m-1} * v_{t+m-1},

    where d is the discount and m <= n the number of steps up to the end of the episode or the
    last row. With n >= T this is A3C's return; `lambda_returns` with lam=1 then says the same.

    Args:
        r_t: rewards [T, B].
        discount_t: discounts [T, B], gamma or 0 where the episode terminated.
        v_t: values of the true next observations [T, B].
        ended_t: where the episode ended, for whatever reason: booleans [T, B].
        n: the number of steps, at least 1.

    Returns:
        The returns [T, B].
    """
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
    """Generalized advantage estimation (Schulman et al. 2015, arXiv:1506.02438).

        delta_t = r_t + gamma * (1 - terminated_t) * v_t - v_tm1
        A_t = delta_t + gamma * lam * (1 - ended_t) * A_{t+1}

    Args:
        r_t: rewards [T, B].
        v_tm1: values of the observations acted upon [T, B].
        v_t: values of the true next observations [T, B]; not looked at where terminated.
        terminated_t: where the episode terminated: booleans [T, B]. These count as ended.
        ended_t: where the episode ended, for whatever reason: booleans [T, B].
        gamma: the discount.
        lam: 0 for one-step advantages, 1 for the longest ones.

    Returns:
        The advantages [T, B], and the value targets A_t + v_tm1 [T, B].
    """
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
    """V-trace targets and advantages (Espeholt et al. 2018, arXiv:1802.01561).

        delta_t = min(clip_rho, rho) * (r_t + discount_t * v_t - v_tm1)
        vs_tm1 = v_tm1 + delta_t + discount_t * lam * min(1, rho) * (vs_t - v_t)
        A_t = min(clip_pg_rho, rho) * (r_t + discount_t * ((1 - lam) * v_t + lam * vs_t) - v_tm1)

    where vs_t is the target of the next row, or `v_t` if the episode ended at t and after the last
    row. With lam=1 this is the paper's; on-policy (rho = 1) the advantages are those of `gae`.

    Args:
        log_rhos: log of target over behaviour probability of the actions taken [T, B].
        r_t: rewards [T, B].
        discount_t: discounts [T, B], gamma or 0 where the episode terminated.
        v_tm1: values of the observations acted upon [T, B].
        v_t: values of the true next observations [T, B].
        ended_t: where the episode ended, for whatever reason: booleans [T, B].
        clip_rho: the ceiling of rho in the targets, `math.inf` for none.
        clip_pg_rho: the ceiling of rho in the advantages, `math.inf` for none.
        lam: how much is carried over from later steps, in [0, 1].

    Returns:
        The value targets vs_tm1 [T, B], and the advantages for the policy gradient [T, B].
    """
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
