"""Losses of policies and values that are learned from recorded data.

What the data holds was done by somebody else, who may have been worse than the policy has become,
and says nothing of other actions.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from rillflow.learning.losses import offline_in_numpy
from rillflow.learning.losses.framework import X, either

if TYPE_CHECKING:
    from rillflow.learning.losses.framework import Numbers


def _in_torch() -> ModuleType:
    from rillflow.learning.losses import offline_in_torch

    return offline_in_torch


framework = either(offline_in_numpy, _in_torch)


def advantage_weights(advantages: X, beta: float, most: float) -> X:
    """How much each action counts (Wang et al. 2018; Peng et al. 2019, arXiv:1910.00177).

        w = min(exp(beta * A), most)

    Args:
        advantages: any shape.
        beta: how much better actions are preferred; 0: not at all.
        most: the largest weight, above 0.

    Returns:
        The weights, the shape of `advantages`; no gradient flows through them.
    """
    return framework(advantages).advantage_weights(advantages, beta, most)


def expectile_loss(v: X, target: Numbers, tau: float) -> X:
    """Half the squared error, in which the two sides count differently (Newey and Powell 1987).

        L = mean(|tau - 1[target < v]| * (target - v)^2) / 2

    At 0.5 it is half the value loss; towards 1 its minimum goes to the largest target that there
    is (Kostrikov et al. 2021, arXiv:2110.06169, equation 5).

    Args:
        v: estimated values, any shape.
        target: constants, the shape of `v`.
        tau: the expectile, between 0 and 1.
    """
    return framework(v).expectile_loss(v, target, tau)


def conservative_loss(q: X, logp: Numbers, q_data: Numbers) -> X:
    """How much actions that were drawn are worth above those of the data, CQL(H) (Kumar et al.
    2020, arXiv:2006.04779, equation 4 and appendix F).

        L = sum_k mean_n(log(mean_m exp(q_kmn - logp_mn)) - q_data_kn)

    Args:
        q: of M drawn actions for each of N observations, by K critics [K, M, N].
        logp: how likely each was, where it was drawn from [M, N]; constants.
        q_data: of the actions in the data [K, N]; gradients flow through both.
    """
    return framework(q).conservative_loss(q, logp, q_data)


def repeated(x: X, times: int) -> X:
    """Rows [N, ...] so many times, one after the other: [times * N, ...]; constants."""
    return framework(x).repeated(x, times)


def joined(a: X, b: Numbers) -> X:
    """Rows [N, ...], and behind them others [M, ...]: [N + M, ...]; constants."""
    return framework(a).joined(a, b)
