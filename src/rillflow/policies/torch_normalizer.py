"""Observations by their running mean and standard deviation, in torch; see `normalizer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rillflow.errors import BuildError
from rillflow.policies.normalizer import CLIP, EPSILON, LEAST, MOST, Moments

if TYPE_CHECKING:
    from rillflow.policies.spec import PolicySpec


class TorchNormalizer(nn.Module):
    """Statistics of observations as buffers, and observations normalised by them."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...], loosely: bool = False) -> None:
        super().__init__()
        self._loosely = loosely
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, obs: Tensor) -> Tensor:
        """Observations [..., *shape], normalised."""
        middle, deviation = self.mean, torch.sqrt(self.variance + EPSILON)
        factor = 1 / deviation
        if self._loosely:  # as `normalizer.seen_by`
            factor = deviation.clamp(LEAST, MOST) / deviation
            middle = middle - (middle * factor).clamp(-MOST, MOST) / factor
        return ((obs.float() - middle.float()) * factor.float()).clamp(-CLIP, CLIP)

    @property
    def moments(self) -> Moments:
        """The statistics."""
        mean, variance = (tensor.cpu().numpy().copy() for tensor in (self.mean, self.variance))
        return Moments(mean, variance, float(self.count))

    def set(self, moments: Moments) -> None:
        """Go by these statistics from now on."""
        parts = (self.mean, moments.mean), (self.variance, moments.variance)
        for own, new in (*parts, (self.count, moments.count)):
            own.copy_(torch.from_numpy(np.asarray(new, np.float64)))


def normalize_before(model: nn.Module, spec: PolicySpec, *, called: bool = True) -> None:
    """Give a network a normaliser, through which its observations go whenever it is called.

    Not `called` there, it is for whoever calls the network to do it.
    """
    if hasattr(model, "normalizer"):
        raise BuildError(
            f"{type(model).__name__} has a `normalizer` of its own: with normalize_observations="
            "True that name is the library's. Call yours otherwise, or leave the setting out."
        )
    model.normalizer = TorchNormalizer(spec.observation_shape, spec.loosely)
    if called:
        model.register_forward_pre_hook(_normalized)


def _normalized(model: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return (model.normalizer(inputs[0]), *inputs[1:])
