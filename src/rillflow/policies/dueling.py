"""Dueling heads: a value and advantages as q values."""

from __future__ import annotations

from torch import Tensor

from rillflow.policies.tensor_checks import check_floats, check_last_dim, check_shape


def dueling(value: Tensor, advantages: Tensor) -> Tensor:
    """The q values of a dueling network (Wang et al. 2015, arXiv:1511.06581, equation 9).

        q(a) = value + advantages(a) - mean_b advantages(b)

    Args:
        value: [...].
        advantages: [..., A].

    Returns:
        The q values [..., A]; gradients flow through both streams.
    """
    check_floats("dueling", value=value, advantages=advantages)
    check_last_dim("dueling", advantages=advantages)
    check_shape("dueling", advantages.shape[:-1], "advantages without actions", value=value)

    return value.unsqueeze(-1) + advantages - advantages.mean(-1, keepdim=True)
