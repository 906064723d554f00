"""Losses of a policy, its entropy, and how far it has moved.

`logp` is the log-probability of the action taken under the current policy: gradients flow through
it and through entropies and divergences, never through advantages or `old_logp`. Losses are to be
minimized and are means over any shape; `mask` leaves out rows that are no step of an episode.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from rillflow.learning.losses import policy_in_numpy
from rillflow.learning.losses.framework import X, either

if TYPE_CHECKING:
    from rillflow.learning.losses.framework import Numbers


def _in_torch() -> ModuleType:
    from rillflow.learning.losses import policy_in_torch

    return policy_in_torch


framework = either(policy_in_numpy, _in_torch)


def policy_gradient_loss(logp: X, advantages: Numbers, mask: Numbers | None = None) -> X:
    """The policy-gradient loss (Williams 1992; Mnih et al. 2016, arXiv:1602.01783).

        L = -mean(logp * A)

    Args:
        logp: log-probabilities of the actions taken, any shape.
        advantages: the shape of `logp`; taken as constants.
        mask: booleans, the shape of `logp`: which entries count.
    """
    return framework(logp).policy_gradient_loss(logp, advantages, mask)


def clipped_surrogate_loss(
    logp: X, old_logp: Numbers, advantages: Numbers, clip: float, mask: Numbers | None = None
) -> X:
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
    return framework(logp).clipped_surrogate_loss(logp, old_logp, advantages, clip, mask)


def clip_fraction(logp: X, old_logp: Numbers, clip: float, mask: Numbers | None = None) -> X:
    """The fraction of ratios that `clipped_surrogate_loss` finds outside [1 - clip, 1 + clip].

    Args:
        logp: log-probabilities of the actions taken, any shape.
        old_logp: the same when the actions were taken, the shape of `logp`.
        clip: as in the loss.
        mask: booleans, the shape of `logp`: which entries count.
    """
    return framework(logp).clip_fraction(logp, old_logp, clip, mask)


def approximate_kl(old_logp: Numbers, logp: X, mask: Numbers | None = None) -> X:
    """KL(old || new) from actions of the old policy, unbiased and never negative.

        mean(ratio - 1 - log(ratio)),    ratio = exp(logp - old_logp)

    This is the estimator k3 of Schulman 2020, http://joschu.net/blog/kl-approx.html.

    Args:
        old_logp: log-probabilities when the actions were taken; constants, any shape.
        logp: the same under the current policy, the shape of `old_logp`.
        mask: booleans, the shape of `logp`: which entries count.
    """
    return framework(logp).approximate_kl(old_logp, logp, mask)


def entropy_bonus(entropy: X, mask: Numbers | None = None) -> X:
    """The mean entropy of a policy (Williams and Peng 1991; Mnih et al. 2016, arXiv:1602.01783).

        H = mean(entropy)

    It is a bonus, not a loss: subtract its multiple, `loss - entropy_coef * entropy_bonus(...)`.

    Args:
        entropy: one entropy per step, any shape.
        mask: booleans, the shape of `entropy`: which entries count.
    """
    return framework(entropy).entropy_bonus(entropy, mask)


def entropy_categorical(logits: X) -> X:
    """Entropy of categorical distributions (Shannon 1948).

        H = -sum_a p(a) * log p(a),    p = softmax(logits)

    An action with logit -inf cannot be taken and adds nothing, to the gradient neither.

    Args:
        logits: [..., A], not necessarily normalized.

    Returns:
        The entropies [...].
    """
    return framework(logits).entropy_categorical(logits)


def uniform_entropy(mask: Numbers) -> Numbers:
    """Entropy of a uniform choice among what is allowed: the largest that there is (Shannon 1948).

        H = log(how many a are allowed)

    Args:
        mask: booleans [..., A]; where nothing is allowed there is no choice, and no entropy.

    Returns:
        The entropies [...]; constants.
    """
    entropies: Numbers = framework(mask).uniform_entropy(mask)
    return entropies


def soft_value(logits: X, q: Numbers, alpha: Numbers) -> X:
    """What discrete actions are worth together, their entropy included (Christodoulou 2019,
    arXiv:1910.07207).

        v = sum_a p(a) * (q(a) - alpha * log p(a)),    p = softmax(logits)

    An action that is never taken adds nothing.

    Args:
        logits: [..., A]; gradients flow through them alone.
        q: q values; constants, the shape of `logits`.
        alpha: what entropy is worth; one number.

    Returns:
        The values [...].
    """
    return framework(logits).soft_value(logits, q, alpha)


def entropy_gaussian(log_std: X) -> X:
    """Entropy of Gaussian distributions with independent components (Shannon 1948).

        H = sum_a (log_std(a) + (1 + log(2 * pi)) / 2)

    Args:
        log_std: [..., A].

    Returns:
        The entropies [...].
    """
    return framework(log_std).entropy_gaussian(log_std)


def kl_categorical(logits_p: X, logits_q: Numbers) -> X:
    """KL divergence of categorical distributions (Kullback and Leibler 1951).

        KL(p || q) = sum_a p(a) * (log p(a) - log q(a))

    An action that p never takes adds nothing; one that only q never takes makes it infinite.

    Args:
        logits_p: [..., A], not necessarily normalized.
        logits_q: the shape of `logits_p`.

    Returns:
        The divergences [...].
    """
    return framework(logits_p).kl_categorical(logits_p, logits_q)


def kl_gaussian(mean_p: X, log_std_p: Numbers, mean_q: Numbers, log_std_q: Numbers) -> X:
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
    return framework(mean_p).kl_gaussian(mean_p, log_std_p, mean_q, log_std_q)
