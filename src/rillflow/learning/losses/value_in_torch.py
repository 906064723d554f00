"""Losses and errors of values, in torch; `value` says what they are."""

from __future__ import annotations

import torch
from torch import Tensor

from rillflow.learning.losses.reduce_in_torch import masked_mean
from rillflow.learning.losses.rescaling_in_torch import rescaled, unscaled
from rillflow.policies.dueling import dueling as dueling
from rillflow.policies.shape_checks import (
    check_last_dim,
    check_members,
    check_positive,
    check_same_shape,
    check_shape,
)
from rillflow.policies.tensor_checks import check_floats, check_ints


def value_loss(v: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """`value.value_loss`."""
    check_floats("value_loss", v=v, target=target)
    check_same_shape("value_loss", v=v, target=target)

    return masked_mean(0.5 * (v - target.detach()).square(), mask)


def clipped_value_loss(
    v: Tensor, old_v: Tensor, target: Tensor, clip: float, mask: Tensor | None = None
) -> Tensor:
    """`value.clipped_value_loss`."""
    check_floats("clipped_value_loss", v=v, old_v=old_v, target=target)
    check_same_shape("clipped_value_loss", v=v, old_v=old_v, target=target)
    check_positive("clipped_value_loss", clip=clip)

    old_v, target = old_v.detach(), target.detach()
    near = old_v + (v - old_v).clamp(-clip, clip)
    worst = torch.maximum((v - target).square(), (near - target).square())
    return masked_mean(0.5 * worst, mask)


def huber(x: Tensor, delta: float = 1.0) -> Tensor:
    """`value.huber`."""
    check_floats("huber", x=x)
    check_positive("huber", delta=delta)

    size = x.abs()
    near = size.clamp(max=delta)
    return near * (size - 0.5 * near)


def n_step_td_target(r_tn: Tensor, discount_tn: Tensor, v_tn: Tensor) -> Tensor:
    """`value.n_step_td_target`."""
    check_floats("n_step_td_target", r_tn=r_tn, discount_tn=discount_tn, v_tn=v_tn)
    check_same_shape("n_step_td_target", r_tn=r_tn, discount_tn=discount_tn, v_tn=v_tn)

    return (r_tn + discount_tn * v_tn).detach()


def q_learning_td_error(
    q_tm1: Tensor, a_tm1: Tensor, r_t: Tensor, discount_t: Tensor, q_t: Tensor
) -> Tensor:
    """`value.q_learning_td_error`."""
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
    rescaling: float | None = None,
) -> Tensor:
    """`value.double_q_td_error`."""
    where = "double_q_td_error"
    check_floats(where, q_tm1=q_tm1, q_t_target=q_t_target, q_t_selector=q_t_selector)
    check_last_dim(where, q_tm1=q_tm1)
    check_same_shape(where, q_tm1=q_tm1, q_t_target=q_t_target, q_t_selector=q_t_selector)

    v_t = _pick(q_t_target, q_t_selector.argmax(-1))
    return _td_error(where, q_tm1, a_tm1, r_t, discount_t, v_t, rescaling)


def _td_error(
    where: str,
    q_tm1: Tensor,
    a_tm1: Tensor,
    r_t: Tensor,
    discount_t: Tensor,
    v_t: Tensor,
    rescaling: float | None = None,
) -> Tensor:
    """r_t + discount_t * v_t - q_tm1(a_tm1), with gradients through the last term only."""
    check_ints(where, a_tm1=a_tm1)
    check_floats(where, r_t=r_t, discount_t=discount_t)
    rows = q_tm1.shape[:-1]
    check_shape(where, rows, "q_tm1 without actions", a_tm1=a_tm1, r_t=r_t, discount_t=discount_t)
    if rescaling is None:
        target = n_step_td_target(r_t, discount_t, v_t)
    else:
        target = n_step_td_target(r_t, discount_t, unscaled(v_t, rescaling))
        target = rescaled(target, rescaling)
    return target - _pick(q_tm1, a_tm1)


def _pick(q: Tensor, a: Tensor) -> Tensor:
    return q.gather(-1, a.long().unsqueeze(-1)).squeeze(-1)


def q_of_taken(q: Tensor, actions: Tensor) -> Tensor:
    """`value.q_of_taken`."""
    check_floats("q_of_taken", q=q)
    check_ints("q_of_taken", actions=actions)
    check_last_dim("q_of_taken", q=q)
    check_shape("q_of_taken", q.shape[:-1], "q without actions", actions=actions)
    return _pick(q, actions)


def huber_loss(errors: Tensor, weights: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    """`value.huber_loss`."""
    check_floats("huber_loss", errors=errors)
    costs = huber(errors)
    if weights is not None:
        check_floats("huber_loss", weights=weights)
        check_same_shape("huber_loss", errors=errors, weights=weights)
        costs = costs * weights.detach()
    return masked_mean(costs, mask)


def td_loss(q: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """`value.td_loss`."""
    check_floats("td_loss", q=q, target=target)
    check_members("td_loss", q, target=target)
    costs = (q - target.detach()).square()
    if weights is not None:
        check_floats("td_loss", weights=weights)
        check_members("td_loss", q, weights=weights)
        costs = costs * weights.detach()
    return 0.5 * costs.sum() / max(1, target.numel())


def td_target(rewards: Tensor, discount: Tensor | float, next_values: Tensor) -> Tensor:
    """`value.td_target`."""
    check_floats("td_target", rewards=rewards, next_values=next_values)
    check_same_shape("td_target", rewards=rewards, next_values=next_values)
    if not isinstance(discount, (float, int)):
        check_floats("td_target", discount=discount)
        check_same_shape("td_target", rewards=rewards, discount=discount)
    return (rewards + discount * next_values).detach()
