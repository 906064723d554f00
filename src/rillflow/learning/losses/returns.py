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

from types import ModuleType
from typing import TYPE_CHECKING

from rillflow.learning.losses import returns_in_numpy
from rillflow.learning.losses.framework import X, either

if TYPE_CHECKING:
    from rillflow.learning.losses.framework import Numbers


def _in_torch() -> ModuleType:
    from rillflow.learning.losses import returns_in_torch

    return returns_in_torch


framework = either(returns_in_numpy, _in_torch)


def discounted_returns(r_t: X, discount_t: Numbers, bootstrap_value: Numbers) -> X:
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
    return framework(r_t).discounted_returns(r_t, discount_t, bootstrap_value)


def lambda_returns(r_t: X, discount_t: Numbers, v_t: Numbers, ended_t: Numbers, lam: float) -> X:
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
    return framework(r_t).lambda_returns(r_t, discount_t, v_t, ended_t, lam)


def n_step_returns(r_t: X, discount_t: Numbers, v_t: Numbers, ended_t: Numbers, n: int) -> X:
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
    return framework(r_t).n_step_returns(r_t, discount_t, v_t, ended_t, n)


def gae(
    r_t: X,
    v_tm1: Numbers,
    v_t: Numbers,
    terminated_t: Numbers,
    ended_t: Numbers,
    gamma: float,
    lam: float,
) -> tuple[X, X]:
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
    return framework(r_t).gae(r_t, v_tm1, v_t, terminated_t, ended_t, gamma, lam)


def vtrace(
    log_rhos: X,
    r_t: Numbers,
    discount_t: Numbers,
    v_tm1: Numbers,
    v_t: Numbers,
    ended_t: Numbers,
    *,
    clip_rho: float = 1.0,
    clip_pg_rho: float = 1.0,
    lam: float = 1.0,
) -> tuple[X, X]:
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
    return framework(log_rhos).vtrace(
        log_rhos,
        r_t,
        discount_t,
        v_tm1,
        v_t,
        ended_t,
        clip_rho=clip_rho,
        clip_pg_rho=clip_pg_rho,
        lam=lam,
    )
