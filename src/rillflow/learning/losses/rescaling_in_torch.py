"""Values on a smaller scale, in torch; `rescaling` says what they are."""

from __future__ import annotations

from torch import Tensor

from rillflow.policies.shape_checks import check_not_negative
from rillflow.policies.tensor_checks import check_floats


def rescaled(x: Tensor, epsilon: float = 1e-3) -> Tensor:
    """`rescaling.rescaled`."""
    check_floats("rescaled", x=x)
    check_not_negative("rescaled", epsilon=epsilon)

    return x / ((x.abs() + 1.0).sqrt() + 1.0) + epsilon * x


def unscaled(x: Tensor, epsilon: float = 1e-3) -> Tensor:
    """`rescaling.unscaled`."""
    check_floats("unscaled", x=x)
    check_not_negative("unscaled", epsilon=epsilon)

    above = x.abs() + (1.0 + epsilon)
    root = 2.0 * above / ((1.0 + 4.0 * epsilon * above).sqrt() + 1.0)
    return x * (root + 1.0) / (epsilon * (root + 1.0) + 1.0)
