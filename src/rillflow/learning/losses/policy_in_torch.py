"""Losses of a policy, its entropy, and how far it has moved, in torch; see `policy`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rillflow.learning.losses.reduce_in_torch import masked_mean
from rillflow.policies.shape_checks import check_last_dim, check_positive, check_same_shape
from rillflow.policies.tensor_checks import check_bools, check_floats


def policy_gradient_loss(logp: Tensor, advantages: Tensor, mask: Tensor | None = None) -> Tensor:
    """`policy.policy_gradient_loss`."""
    check_floats("policy_gradient_loss", logp=logp, advantages=advantages)
    check_same_shape("policy_gradient_loss", logp=logp, advantages=advantages)

    return masked_mean(-logp * advantages.detach(), mask)


def clipped_surrogate_loss(
    logp: Tensor, old_logp: Tensor, advantages: Tensor, clip: float, mask: Tensor | None = None
) -> Tensor:
    """`policy.clipped_surrogate_loss`."""
    where = "clipped_surrogate_loss"
    check_floats(where, logp=logp, old_logp=old_logp, advantages=advantages)
    check_same_shape(where, logp=logp, old_logp=old_logp, advantages=advantages)
    check_positive(where, clip=clip)

    advantages = advantages.detach()
    ratio = (logp - old_logp.detach()).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return masked_mean(-torch.minimum(ratio * advantages, clipped * advantages), mask)


@torch.no_grad()
def clip_fraction(
    logp: Tensor, old_logp: Tensor, clip: float, mask: Tensor | None = None
) -> Tensor:
    """`policy.clip_fraction`."""
    check_floats("clip_fraction", logp=logp, old_logp=old_logp)
    check_same_shape("clip_fraction", logp=logp, old_logp=old_logp)
    check_positive("clip_fraction", clip=clip)

    outside = torch.expm1(logp - old_logp).abs() > clip
    return masked_mean(outside.to(logp.dtype), mask)


def approximate_kl(old_logp: Tensor, logp: Tensor, mask: Tensor | None = None) -> Tensor:
    """`policy.approximate_kl`."""
    check_floats("approximate_kl", old_logp=old_logp, logp=logp)
    check_same_shape("approximate_kl", old_logp=old_logp, logp=logp)

    log_ratio = logp - old_logp.detach()
    return masked_mean(torch.expm1(log_ratio) - log_ratio, mask)


def entropy_bonus(entropy: Tensor, mask: Tensor | None = None) -> Tensor:
    """`policy.entropy_bonus`."""
    check_floats("entropy_bonus", entropy=entropy)

    return masked_mean(entropy, mask)


def entropy_categorical(logits: Tensor) -> Tensor:
    """`policy.entropy_categorical`."""
    check_floats("entropy_categorical", logits=logits)
    check_last_dim("entropy_categorical", logits=logits)

    logp = logits.log_softmax(-1)
    p = logp.exp()
    return -(p * logp.masked_fill(p == 0, 0)).sum(-1)


def uniform_entropy(mask: Tensor) -> Tensor:
    """`policy.uniform_entropy`."""
    check_bools("uniform_entropy", mask=mask)
    check_last_dim("uniform_entropy", mask=mask)

    return mask.sum(-1).clamp(min=1).float().log()


def soft_value(logits: Tensor, q: Tensor, alpha: Tensor | float) -> Tensor:
    """`policy.soft_value`."""
    check_floats("soft_value", logits=logits, q=q)
    check_last_dim("soft_value", logits=logits)
    check_same_shape("soft_value", logits=logits, q=q)

    logp = logits.log_softmax(-1)
    p = logp.exp()
    return (p * (q.detach() - alpha * logp).masked_fill(p == 0, 0)).sum(-1)


def entropy_gaussian(log_std: Tensor) -> Tensor:
    """`policy.entropy_gaussian`."""
    check_floats("entropy_gaussian", log_std=log_std)
    check_last_dim("entropy_gaussian", log_std=log_std)

    return (log_std + 0.5 * (1 + math.log(2 * math.pi))).sum(-1)


def kl_categorical(logits_p: Tensor, logits_q: Tensor) -> Tensor:
    """`policy.kl_categorical`."""
    check_floats("kl_categorical", logits_p=logits_p, logits_q=logits_q)
    check_last_dim("kl_categorical", logits_p=logits_p, logits_q=logits_q)
    check_same_shape("kl_categorical", logits_p=logits_p, logits_q=logits_q)

    logp, logq = logits_p.log_softmax(-1), logits_q.log_softmax(-1)
    p = logp.exp()
    return (p * (logp - logq).masked_fill(p == 0, 0)).sum(-1)


def kl_gaussian(mean_p: Tensor, log_std_p: Tensor, mean_q: Tensor, log_std_q: Tensor) -> Tensor:
    """`policy.kl_gaussian`."""
    tensors = {"mean_p": mean_p, "log_std_p": log_std_p, "mean_q": mean_q, "log_std_q": log_std_q}
    check_floats("kl_gaussian", **tensors)
    check_last_dim("kl_gaussian", **tensors)
    check_same_shape("kl_gaussian", **tensors)

    # z = log(std_p / std_q); expm1 keeps the digits of nearly equal distributions
    z = log_std_p - log_std_q
    distance = (mean_p - mean_q) * (-log_std_q).exp()
    return (0.5 * (torch.expm1(2 * z) + distance.square()) - z).sum(-1)
