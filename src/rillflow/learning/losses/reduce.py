"""From many numbers to few: means, and the least of some."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from rillflow.learning.losses import reduce_in_numpy
from rillflow.learning.losses.framework import X, either

if TYPE_CHECKING:
    from rillflow.learning.losses.framework import Numbers


def _in_torch() -> ModuleType:
    from rillflow.learning.losses import reduce_in_torch

    return reduce_in_torch


framework = either(reduce_in_numpy, _in_torch)


def masked_mean(x: X, mask: Numbers | None = None) -> X:
    """The mean of `x` over the entries where `mask` is true, or over all of them.

    A row that is no step of an episode (padding, or the row in which an environment resets
    itself) is masked out of a loss; it counts neither above nor below the fraction bar. If
    nothing is left the mean is 0, with gradient 0.

    Args:
        x: any shape.
        mask: boolean, the shape of `x`.
    """
    return framework(x).masked_mean(x, mask)


def mean(x: X, mask: Numbers | None = None) -> X:
    """As `masked_mean`; of one number, that number.

    Args:
        x: any shape, or one number.
        mask: boolean, the shape of `x`.
    """
    return framework(x).mean(x, mask)


def standardized(x: X, mask: Numbers | None = None) -> X:
    """Mean 0 and standard deviation 1, as PPO's reference code does it to advantages.

        (x - mean(x)) / (std(x) + 1e-8),    std with n - 1 below the fraction bar

    One entry alone becomes 0. No gradient flows through the result.

    Args:
        x: any shape.
        mask: boolean, the shape of `x`: which entries count; the others become 0.

    Returns:
        The shape of `x`.
    """
    return framework(x).standardized(x, mask)


def minimum(a: X, b: Numbers) -> X:
    """The lesser of each pair of entries; where both are the same, they share the gradient.

    Args:
        a: any shape.
        b: the shape of `a`, or one that is broadcast with it, or one number.
    """
    return framework(b if isinstance(a, (float, int)) else a).minimum(a, b)


def lowest(q: X) -> X:
    """The least of an ensemble's estimates (Fujimoto et al. 2018, arXiv:1802.09477).

        q_n = min_k q_kn

    Members that have the same least estimate share the gradient.

    Args:
        q: one row per member [K, N].

    Returns:
        The least of each column [N].
    """
    return framework(q).lowest(q)
