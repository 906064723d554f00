"""Distributions of returns over atoms, in torch; `atoms` has the same in NumPy."""

from __future__ import annotations

from torch import Tensor

from rillflow.policies.shape_checks import check_last_dim, check_shape
from rillflow.policies.tensor_checks import check_floats


def expected(logits: Tensor, atoms: Tensor) -> Tensor:
    """The means [..., A] of distributions [..., A, atoms], given as logits."""
    check_floats("expected", logits=logits, atoms=atoms)
    check_last_dim("expected", logits=logits)
    check_shape("expected", logits.shape[-1:], "one distribution", atoms=atoms)

    mean: Tensor = logits.softmax(-1) @ atoms
    return mean


def dueling(value: Tensor, advantages: Tensor) -> Tensor:
    """The logits [..., A, atoms] of a dueling network, by atoms (Wang et al. 2015; Hessel et al.
    2017, arXiv:1710.02298, page 3): `value` is [..., atoms], `advantages` [..., A, atoms]."""
    return value.unsqueeze(-2) + advantages - advantages.mean(-2, keepdim=True)
