"""Values on a smaller scale, for returns of any size (Pohlen et al. 2018, arXiv:1805.11593).

A network learns h(q) in the place of q. Before anything is added to a value it is brought back to
the scale of rewards, and the sum is rescaled then: h is no line, so h(r) + h(q) is not h(r + q).
"""

from __future__ import annotations

from types import ModuleType

from rillflow.learning.losses import rescaling_in_numpy
from rillflow.learning.losses.framework import X, either


def _in_torch() -> ModuleType:
    from rillflow.learning.losses import rescaling_in_torch

    return rescaling_in_torch


framework = either(rescaling_in_numpy, _in_torch)


def rescaled(x: X, epsilon: float = 1e-3) -> X:
    """Large values become small ones, in their order.

        h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x

    Args:
        x: values on the scale of rewards, any shape.
        epsilon: keeps the slope from vanishing, and the inverse within bounds; at least 0.
    """
    return framework(x).rescaled(x, epsilon)


def unscaled(x: X, epsilon: float = 1e-3) -> X:
    """The inverse of `rescaled`: values on the scale of rewards again.

        h^-1(x) = sign(x) (((sqrt(1 + 4 epsilon (|x| + 1 + epsilon)) - 1) / (2 epsilon))^2 - 1)

    Args:
        x: values that were rescaled, any shape.
        epsilon: what they were rescaled with.
    """
    return framework(x).unscaled(x, epsilon)
