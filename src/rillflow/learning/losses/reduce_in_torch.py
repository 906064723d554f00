"""From many numbers to few, in torch; `reduce` says what each function means."""

from __future__ import annotations

import torch
from torch import Tensor

from rillflow.policies.shape_checks import check_ensemble, check_same_shape
from rillflow.policies.tensor_checks import check_bools, check_floats


def masked_mean(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """`reduce.masked_mean`."""
    check_floats("masked_mean", x=x)
    if mask is None:
        return x.mean()
    check_bools("masked_mean", mask=mask)
    check_same_shape("masked_mean", x=x, mask=mask)
    return x.masked_fill(~mask, 0).sum() / mask.sum().clamp(min=1)


def mean(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """`reduce.mean`."""
    return masked_mean(x, mask)


@torch.no_grad()
def standardized(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """`reduce.standardized`."""
    check_floats("standardized", x=x)
    if mask is not None:
        check_bools("standardized", mask=mask)
        check_same_shape("standardized", x=x, mask=mask)
        return torch.zeros_like(x).masked_scatter(mask, standardized(x[mask]))
    if x.numel() < 2:
        return torch.zeros_like(x)
    return (x - x.mean()) / (x.std() + 1e-8)


def minimum(a: Tensor | float, b: Tensor | float) -> Tensor:
    """`reduce.minimum`."""
    for name, x in {"a": a, "b": b}.items():
        if not isinstance(x, (float, int)):
            check_floats("minimum", **{name: x})
    return torch.minimum(torch.as_tensor(a), torch.as_tensor(b))


def lowest(q: Tensor) -> Tensor:
    """`reduce.lowest`."""
    check_floats("lowest", q=q)
    check_ensemble("lowest", q=q)
    return q.amin(0)
