"""From one number per step to one number per batch."""

from __future__ import annotations

from torch import Tensor

from rillflow.policies.tensor_checks import check_bools, check_floats, check_same_shape


def masked_mean(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean of `x` over the entries where `mask` is true, or over all of them.

    A row that is no step of an episode (padding, or the row in which an environment resets
    itself) is masked out of a loss; it counts neither above nor below the fraction bar. If
    nothing is left the mean is 0, with gradient 0.

    Args:
        x: any shape.
        mask: boolean, the shape of `x`.
    """
    check_floats("masked_mean", x=x)
    if mask is None:
        return x.mean()
    check_bools("masked_mean", mask=mask)
    check_same_shape("masked_mean", x=x, mask=mask)
    return x.masked_fill(~mask, 0).sum() / mask.sum().clamp(min=1)
