"""Losses of recorded data, in torch; `offline` says what they are."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rillflow.policies.shape_checks import check_same_shape, check_shape
from rillflow.policies.tensor_checks import check_floats, check_tensors


def advantage_weights(advantages: Tensor, beta: float, most: float) -> Tensor:
    """`offline.advantage_weights`."""
    check_floats("advantage_weights", advantages=advantages)
    exponents = (beta * advantages.detach()).clamp(max=math.log(most))
    return exponents.exp()


def expectile_loss(v: Tensor, target: Tensor, tau: float) -> Tensor:
    """`offline.expectile_loss`."""
    check_floats("expectile_loss", v=v, target=target)
    check_same_shape("expectile_loss", v=v, target=target)
    errors = v - target.detach()
    sides = torch.where(errors > 0, 1 - tau, tau)
    return (sides * errors.square()).mean() * 0.5


def conservative_loss(q: Tensor, logp: Tensor, q_data: Tensor) -> Tensor:
    """`offline.conservative_loss`."""
    check_floats("conservative_loss", q=q, logp=logp, q_data=q_data)
    check_shape("conservative_loss", q.shape[1:], "q of one critic", logp=logp)
    check_shape("conservative_loss", (q.shape[0], q.shape[2]), "critics and rows", q_data=q_data)
    soft = torch.logsumexp(q - logp.detach(), 1) - math.log(q.shape[1])
    return (soft - q_data).mean(-1).sum()


def repeated(x: Tensor, times: int) -> Tensor:
    """`offline.repeated`."""
    check_tensors("repeated", x=x)
    return x.detach().repeat(times, *[1] * (x.ndim - 1))


def joined(a: Tensor, b: Tensor) -> Tensor:
    """`offline.joined`."""
    check_tensors("joined", a=a, b=b)
    check_shape("joined", b.shape[:1] + a.shape[1:], "rows of a", b=b)
    return torch.cat([a.detach(), b.detach()])
