"""Losses and errors of values: of states, v, and of actions, q.

Names carry the time: `q_tm1` and `v` are learned, so gradients flow through them; rewards, targets
and everything at time t are constants. Errors are target minus estimate, one per row, so that the
caller can weight them (prioritized replay) before `huber` and the mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rillflow.learning.losses.reduce import masked_mean
from rillflow.policies.tensor_checks import (
    check_floats,
    check_ints,
    check_last_dim,
    check_positive,
    check_same_shape,
    check_shape,
)


def value_loss(v: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Half the mean squared error (Mnih et al. 2016, arXiv:1602.01783).

        L = mean((v - target)^2) / 2

    Args:
        v: estimated values, any shape.
        target: what they should have been; constants, the shape of `v`.
        mask: booleans, the shape of `v`: which entries count.
    """
    check_floats("value_loss", v=v, target=target)
    check_same_shape("value_loss", v=v, target=target)

    return masked_mean(0.5 * (v - target.detach()).square(), mask)


def clipped_value_loss(
    v: Tensor, old_v: Tensor, target: Tensor, clip: float, mask: Tensor | None = None
) -> Tensor:
    """The value loss of PPO's reference code (Schulman et al. 2017; see arXiv:2005.12729).

        near = old_v + clamp(v - old_v, -clip, clip)
        L = mean(max((v - target)^2, (near - target)^2)) / 2

    Args:
        v: estimated values, any shape.
        old_v: the estimates when the actions were taken; constants, the shape of `v`.
        target: what they should have been; constants, the shape of `v`.
        clip: how far a value may move towards its target before its gradient is cut.
        mask: booleans, the shape of `v`: which entries count.
    """
    check_floats("clipped_value_loss", v=v, old_v=old_v, target=target)
    check_same_shape("clipped_value_loss", v=v, old_v=old_v, target=target)
    check_positive("clipped_value_loss", clip=clip)

    old_v, target = old_v.detach(), target.detach()
    near = old_v + (v - old_v).clamp(-clip, clip)
    worst = torch.maximum((v - target).square(), (near - target).square())
    return masked_mean(0.5 * worst, mask)


def huber(x: Tensor, delta: float = 1.0) -> Tensor:
    """Huber's function of each entry (Huber 1964, doi:10.1214/aoms/1177703732).

        x^2 / 2                      where |x| <= delta
        delta * (|x| - delta / 2)    elsewhere

    With delta=1 its slope is DQN's error, clipped to [-1, 1].

    Args:
        x: errors, any shape.
        delta: where the parabola turns into a line; the largest slope.
    """
    check_floats("huber", x=x)
    check_positive("huber", delta=delta)

    size = x.abs()
    near = size.clamp(max=delta)
    return near * (size - 0.5 * near)


def n_step_td_target(r_tn: Tensor, discount_tn: Tensor, v_tn: Tensor) -> Tensor:
    """The target of one replay row that spans n steps (Hessel et al. 2017, arXiv:1710.02298).

        target = r_tn + discount_tn * v_tn

    Args:
        r_tn: the discounted sum of the row's n rewards, any shape.
        discount_tn: gamma^n, or 0 if the episode terminated within these steps.
        v_tn: value of the observation after them (of the final one, if truncated).

    Returns:
        The targets, the shape of `r_tn`; no gradient flows through them.
    """
    check_floats("n_step_td_target", r_tn=r_tn, discount_tn=discount_tn, v_tn=v_tn)
    check_same_shape("n_step_td_target", r_tn=r_tn, discount_tn=discount_tn, v_tn=v_tn)

    return (r_tn + discount_tn * v_tn).detach()


def q_learning_td_error(
    q_tm1: Tensor, a_tm1: Tensor, r_t: Tensor, discount_t: Tensor, q_t: Tensor
) -> Tensor:
    """The error of Q-learning (Watkins and Dayan 1992; Mnih et al. 2013, arXiv:1312.5602).

        error = r_t + discount_t * max_a q_t(a) - q_tm1(a_tm1)

    Args:
        q_tm1: q values of the observation acted upon [..., A].
        a_tm1: the actions taken, integers [...].
        r_t: rewards [...], or sums over the n steps of a replay row.
        discount_t: gamma (gamma^n), or 0 where the episode terminated [...].
        q_t: q values of the true next observation, by the target network [..., A].

    Returns:
        The errors [...].
    """
    where = "q_learning_td_error"
    check_floats(where, q_tm1=q_tm1, q_t=q_t)
    check_last_dim(where, q_tm1=q_tm1)
    check_same_shape(where, q_tm1=q_tm1, q_t=q_t)

    return _td_error(where, q_tm1, a_tm1, r_t, discount_t, q_t.amax(-1))


def double_q_td_error(
    q_tm1: Tensor,
    a_tm1: Tensor,
    r_t: Tensor,
    discount_t: Tensor,
    q_t_target: Tensor,
    q_t_selector: Tensor,
) -> Tensor:
    """The error of double Q-learning (van Hasselt et al. 2015, arXiv:1509.06461).

        error = r_t + discount_t * q_t_target(argmax_a q_t_selector(a)) - q_tm1(a_tm1)

    Args:
        q_tm1: q values of the observation acted upon [..., A].
        a_tm1: the actions taken, integers [...].
        r_t: rewards [...], or sums over the n steps of a replay row.
        discount_t: gamma (gamma^n), or 0 where the episode terminated [...].
        q_t_target: q values of the true next observation, by the target network [..., A].
        q_t_selector: the same by the network that is being learned [..., A].

    Returns:
        The errors [...].
    """
    where = "double_q_td_error"
    check_floats(where, q_tm1=q_tm1, q_t_target=q_t_target, q_t_selector=q_t_selector)
    check_last_dim(where, q_tm1=q_tm1)
    check_same_shape(where, q_tm1=q_tm1, q_t_target=q_t_target, q_t_selector=q_t_selector)

    v_t = _pick(q_t_target, q_t_selector.argmax(-1))
    return _td_error(where, q_tm1, a_tm1, r_t, discount_t, v_t)


def _td_error(
    where: str, q_tm1: Tensor, a_tm1: Tensor, r_t: Tensor, discount_t: Tensor, v_t: Tensor
) -> Tensor:
    """r_t + discount_t * v_t - q_tm1(a_tm1), with gradients through the last term only."""
    check_ints(where, a_tm1=a_tm1)
    check_floats(where, r_t=r_t, discount_t=discount_t)
    rows = q_tm1.shape[:-1]
    check_shape(where, rows, "q_tm1 without actions", a_tm1=a_tm1, r_t=r_t, discount_t=discount_t)
    return n_step_td_target(r_t, discount_t, v_t) - _pick(q_tm1, a_tm1)


def _pick(q: Tensor, a: Tensor) -> Tensor:
    return q.gather(-1, a.long().unsqueeze(-1)).squeeze(-1)
