"""Losses of a policy, its entropy, and how far it has moved.

`logp` is the log-probability of the action taken under the current policy: gradients flow through
it and through entropies and divergences, never through advantages or `old_logp`. Losses are to be
minimized and are means over any shape; `mask` leaves out rows that are no step of an episode.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rillflow.learning.losses.reduce import masked_mean
from rillflow.policies.tensor_checks import (
    check_floats,
    check_last_dim,
    check_positive,
    check_same_shape,
)


def policy_gradient_loss(logp: Tensor, advantages: Tensor, mask: Tensor | None = None) -> Tensor:
    """The policy-gradient loss (Williams 1992; Mnih et al. 2016, arXiv:1602.01783).

        L = -mean(logp * A)

    Args:
        logp: log-probabilities of the actions taken, any shape.
        advantages: the shape of `logp`; taken as constants.
        mask: booleans, the shape of `logp`: which entries count.
    """
    check_floats("policy_gradient_loss", logp=logp, advantages=advantages)
    check_same_shape("policy_gradient_loss", logp=logp, advantages=advantages)

    return masked_mean(-logp * advantages.detach(), mask)


def clipped_surrogate_loss(
    logp: Tensor, old_logp: Tensor, advantages: Tensor, clip: float, mask: Tensor | None = None
) -> Tensor:
    """PPO's clipped surrogate objective (Schulman et al. 2017, arXiv:1707.06347, equation 7).

        ratio = exp(logp - old_logp)
        L = -mean(min(ratio * A, clamp(ratio, 1 - clip, 1 + clip) * A))

    Args:
        logp: log-probabilities of the actions taken, any shape.
        old_logp: the same when the actions were taken; constants, the shape of `logp`.
        advantages: the shape of `logp`; taken as constants.
        clip: how far the ratio may move from 1 before its gradient is cut.
        mask: booleans, the shape of `logp`: which entries count.
    """
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
    """The fraction of ratios that `clipped_surrogate_loss` finds outside [1 - clip, 1 + clip].

    Args:
        logp: log-probabilities of the actions taken, any shape.
        old_logp: the same when the actions were taken, the shape of `logp`.
        clip: as in the loss.
        mask: booleans, the shape of `logp`: which entries count.
    """
    check_floats("clip_fraction", logp=logp, old_logp=old_logp)
    check_same_shape("clip_fraction", logp=logp, old_logp=old_logp)
    check_positive("clip_fraction", clip=clip)

    outside = torch.expm1(logp - old_logp).abs() > clip
    return masked_mean(outside.to(logp.dtype), mask)


def approximate_kl(old_logp: Tensor, logp: Tensor, mask: Tensor | None = None) -> Tensor:
    """KL(old || new) from actions of the old policy, unbiased and never negative.

        mean(ratio - 1 - log(ratio)),    ratio = exp(logp - old_logp)

    This is the estimator k3 of Schulman 2020, http://joschu.net/blog/kl-approx.html.

    Args:
        old_logp: log-probabilities when the actions were taken; constants, any shape.
        logp: the same under the current policy, the shape of `old_logp`.
        mask: booleans, the shape of `logp`: which entries count.
    """
    check_floats("approximate_kl", old_logp=old_logp, logp=logp)
    check_same_shape("approximate_kl", old_logp=old_logp, logp=logp)

    log_ratio = logp - old_logp.detach()
    return masked_mean(torch.expm1(log_ratio) - log_ratio, mask)


def entropy_bonus(entropy: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean entropy of a policy (Williams and Peng 1991; Mnih et al. 2016, arXiv:1602.01783).

        H = mean(entropy)

    It is a bonus, not a loss: subtract its multiple, `loss - entropy_coef * entropy_bonus(...)`.

    Args:
        entropy: one entropy per step, any shape.
        mask: booleans, the shape of `entropy`: which entries count.
    """
    check_floats("entropy_bonus", entropy=entropy)

    return masked_mean(entropy, mask)


def entropy_categorical(logits: Tensor) -> Tensor:
    """Entropy of categorical distributions (Shannon 1948).

        H = -sum_a p(a) * log p(a),    p = softmax(logits)

    An action with logit -inf cannot be taken and adds nothing, to the gradient neither.

    Args:
        logits: [..., A], not necessarily normalized.

    Returns:
        The entropies [...].
    """
    check_floats("entropy_categorical", logits=logits)
    check_last_dim("entropy_categorical", logits=logits)

    logp = logits.log_softmax(-1)
    p = logp.exp()
    return -(p * logp.masked_fill(p == 0, 0)).sum(-1)


def entropy_gaussian(log_std: Tensor) -> Tensor:
    """Entropy of Gaussian distributions with independent components (Shannon 1948).

        H = sum_a (log_std(a) + (1 + log(2 * pi)) / 2)

    Args:
        log_std: [..., A].

    Returns:
        The entropies [...].
    """
    check_floats("entropy_gaussian", log_std=log_std)
    check_last_dim("entropy_gaussian", log_std=log_std)

    return (log_std + 0.5 * (1 + math.log(2 * math.pi))).sum(-1)


def kl_categorical(logits_p: Tensor, logits_q: Tensor) -> Tensor:
    """KL divergence of categorical distributions (Kullback and Leibler 1951).

        KL(p || q) = sum_a p(a) * (log p(a) - log q(a))

    An action that p never takes adds nothing; one that only q never takes makes it infinite.

    Args:
        logits_p: [..., A], not necessarily normalized.
        logits_q: the shape of `logits_p`.

    Returns:
        The divergences [...].
    """
    check_floats("kl_categorical", logits_p=logits_p, logits_q=logits_q)
    check_last_dim("kl_categorical", logits_p=logits_p, logits_q=logits_q)
    check_same_shape("kl_categorical", logits_p=logits_p, logits_q=logits_q)

    logp, logq = logits_p.log_softmax(-1), logits_q.log_softmax(-1)
    p = logp.exp()
    return (p * (logp - logq).masked_fill(p == 0, 0)).sum(-1)


def kl_gaussian(mean_p: Tensor, log_std_p: Tensor, mean_q: Tensor, log_std_q: Tensor) -> Tensor:
    """KL divergence of Gaussians with independent components (Kullback and Leibler 1951).

        KL(p || q) = sum_a (log(std_q / std_p) - 1 / 2
                            + (std_p^2 + (mean_p - mean_q)^2) / (2 * std_q^2))

    Args:
        mean_p: [..., A].
        log_std_p: the shape of `mean_p`.
        mean_q: the shape of `mean_p`.
        log_std_q: the shape of `mean_p`.

    Returns:
        The divergences [...].
    """
    tensors = {"mean_p": mean_p, "log_std_p": log_std_p, "mean_q": mean_q, "log_std_q": log_std_q}
    check_floats("kl_gaussian", **tensors)
    check_last_dim("kl_gaussian", **tensors)
    check_same_shape("kl_gaussian", **tensors)

    # z = log(std_p / std_q); expm1 keeps the digits of nearly equal distributions
    z = log_std_p - log_std_q
    distance = (mean_p - mean_q) * (-log_std_q).exp()
    return (0.5 * (torch.expm1(2 * z) + distance.square()) - z).sum(-1)
