"""Losses of distributions over atoms, in torch; `categorical` says what they are."""

from __future__ import annotations

import torch
from torch import Tensor

from rillflow.policies.categorical import expected
from rillflow.policies.shape_checks import check_atoms, check_shape, check_support
from rillflow.policies.tensor_checks import check_floats, check_ints


def expected_values(logits: Tensor, v_min: float, v_max: float) -> Tensor:
    """`categorical.expected_values`."""
    check_floats("expected_values", logits=logits)
    check_atoms("expected_values", logits=logits)
    check_support("expected_values", v_min, v_max)

    return expected(logits, _atoms(logits, v_min, v_max))


def categorical_target(
    logits_t: Tensor,
    q_t_selector: Tensor,
    r_t: Tensor,
    discount_t: Tensor,
    v_min: float,
    v_max: float,
) -> tuple[Tensor, Tensor]:
    """`categorical.categorical_target`."""
    where = "categorical_target"
    check_floats(
        where, logits_t=logits_t, q_t_selector=q_t_selector, r_t=r_t, discount_t=discount_t
    )
    check_atoms(where, logits_t=logits_t)
    check_support(where, v_min, v_max)
    check_shape(where, logits_t.shape[:2], "logits_t without atoms", q_t_selector=q_t_selector)
    check_shape(where, logits_t.shape[:1], "one row each", r_t=r_t, discount_t=discount_t)

    with torch.no_grad():
        p = _of(logits_t, q_t_selector.argmax(-1)).softmax(-1)
        count = p.shape[1]
        scale = (count - 1) / (v_max - v_min)
        moved = r_t.unsqueeze(1) + discount_t.unsqueeze(1) * _atoms(p, v_min, v_max)
        place = (moved - v_min) * scale  # among the atoms, which are numbered
        clipped = (p * ((place < -0.5) | (place > count - 0.5))).sum(1)
        place = place.clamp(0, count - 1)
        # the last atom has no neighbour above: what falls on it is wholly its own all the same
        below = place.floor().clamp(max=count - 2)
        above = place - below
        first = torch.arange(len(p), device=p.device).unsqueeze(1) * count
        at = (first + below.long()).flatten()
        target = torch.zeros(p.numel(), dtype=p.dtype, device=p.device)
        target.index_add_(0, at, (p * (1 - above)).flatten())
        target.index_add_(0, at + 1, (p * above).flatten())
    return target.view_as(p), clipped


def categorical_error(logits_tm1: Tensor, a_tm1: Tensor, target: Tensor) -> Tensor:
    """`categorical.categorical_error`."""
    where = "categorical_error"
    check_floats(where, logits_tm1=logits_tm1, target=target)
    check_ints(where, a_tm1=a_tm1)
    check_atoms(where, logits_tm1=logits_tm1)
    check_shape(where, logits_tm1.shape[:1], "one row each", a_tm1=a_tm1)
    check_shape(where, logits_tm1.shape[::2], "the logits of one action", target=target)

    target = target.detach()
    log_p = _of(logits_tm1, a_tm1.long()).log_softmax(-1)
    return (torch.xlogy(target, target) - target * log_p).sum(-1)


def _of(logits: Tensor, actions: Tensor) -> Tensor:
    """Of [N, A, atoms] those of one action each, [N, atoms]."""
    return logits[torch.arange(len(logits), device=logits.device), actions]


def _atoms(like: Tensor, v_min: float, v_max: float) -> Tensor:
    return torch.linspace(v_min, v_max, like.shape[-1], dtype=like.dtype, device=like.device)
