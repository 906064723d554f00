"""Fully connected layers with noise, in NumPy: forwards with what was drawn, backwards to both.

They compute with arrays of their own, `mean + sigma * noise`, made anew whenever noise is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rillflow.learning.numpy_layers import Linear
from rillflow.policies.noise import SIGMA, Pair
from rillflow.policies.sampling import Floats


class NoisyLinear(Linear):
    """`(weight + sigma * noise) @ x + bias + ...`; without noise as any linear layer.

    Args:
        name: of the layer.
        weights: those of the whole network, among them `name.weight` and `name.weight_sigma`.
        gradients: of the same names.
    """

    def __init__(
        self, name: str, weights: Mapping[str, Floats], gradients: Mapping[str, Floats]
    ) -> None:
        super().__init__(name, weights, gradients)
        self._means = self.weight, self.bias
        self._sigmas = weights[f"{name}.weight{SIGMA}"], weights[f"{name}.bias{SIGMA}"][..., None]
        self._d_sigmas = gradients[f"{name}.weight{SIGMA}"], gradients[f"{name}.bias{SIGMA}"]
        self.weight, self.bias = self.weight.copy(), self.bias.copy()
        self._turned = self.weight.swapaxes(-1, -2)
        self._noise = np.zeros_like(self.weight), np.zeros_like(self.bias)

    def set_noise(self, drawn: Pair | None) -> None:
        """Compute with this noise, or with none, and with the means and sigmas of now."""
        outputs, inputs = (np.float32(0), np.float32(0)) if drawn is None else drawn
        weight, bias = self._noise
        bias[...] = np.reshape(outputs, (-1, 1))
        np.multiply(bias, inputs, out=weight)
        for own, mean, sigma, noise in zip(
            (self.weight, self.bias), self._means, self._sigmas, self._noise, strict=True
        ):
            np.multiply(sigma, noise, out=own)
            own += mean

    def backward(self, x: Floats, d_out: Floats, add: bool = False) -> None:
        """Leave the gradients of means and sigmas, or add to those that are there."""
        weight, bias = self._noise
        d_weight, d_bias = self._d_sigmas
        if not add:
            super().backward(x, d_out)
            np.multiply(self.d_weight, weight, out=d_weight)
            np.multiply(self.d_bias, bias[..., 0], out=d_bias)
            return
        more, more_bias = np.matmul(d_out, x.swapaxes(-1, -2)), np.add.reduce(d_out, -1)
        self.d_weight += more
        self.d_bias += more_bias
        d_weight += more * weight
        d_bias += more_bias * bias[..., 0]
