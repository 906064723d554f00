"""Adam on one vector (Kingma and Ba 2014, arXiv:1412.6980); AMSGrad (Reddi et al. 2018)."""

from __future__ import annotations

import math

import numpy as np

from rillflow.policies.sampling import Floats

_SWEEP = 32
"""steps between two looks for averages that have become too small"""
_NOTHING = np.float32(1e-32)
"""far above the smallest normal number, and far below what could move a parameter"""


class Adam:
    """Steps of a vector of parameters, in place; as `torch.optim.Adam` makes them."""

    def __init__(
        self,
        parameters: Floats,
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float,
        amsgrad: bool = False,
    ) -> None:
        self.parameters, self.lr, self.betas, self.eps = parameters, lr, betas, eps
        self.steps = 0
        self.mean = np.zeros_like(parameters)
        """of the gradients, decaying"""
        self.square = np.zeros_like(parameters)
        """of the squares of the gradients, decaying"""
        self.largest = np.zeros_like(parameters) if amsgrad else None
        """that `square` has been, if it is to count in its place"""
        self._free = np.empty_like(parameters)
        beta1, beta2 = betas
        self._kept = np.float32(beta1), np.float32(beta2)
        self._new = np.float32(1 - beta1), np.float32(1 - beta2)

    def step(self, gradient: Floats) -> None:
        """One step against the gradient."""
        self.steps += 1
        free, (beta1, beta2) = self._free, self.betas
        mean, square, (kept_mean, kept_square) = self.mean, self.square, self._kept
        new_mean, new_square = self._new
        np.multiply(gradient, new_mean, out=free)
        mean *= kept_mean
        mean += free
        np.multiply(gradient, gradient, out=free)
        free *= new_square
        square *= kept_square
        square += free
        # both averages began at 0; dividing by the weight of what was seen makes up for it, which
        # of the squares is done to `eps` and to the rate, that are one number each
        weight = math.sqrt(1 - beta2**self.steps)
        if self.largest is not None:
            square = np.maximum(self.largest, square, out=self.largest)
        np.sqrt(square, out=free)
        free += np.float32(self.eps * weight)
        np.divide(mean, free, out=free)
        free *= np.float32(self.lr * weight / (1 - beta1**self.steps))
        self.parameters -= free
        if self.steps % _SWEEP == 0:
            self._sweep()

    def _sweep(self) -> None:
        """Make averages that are nearly nothing nothing.

        The average of a unit that is never active halves every few steps until it is below the
        smallest normal number, where it stays, and where a processor is ten times slower.
        """
        np.abs(self.mean, out=self._free)
        np.putmask(self.mean, self._free < _NOTHING, 0)
        np.putmask(self.square, self.square < _NOTHING, 0)


def clip_norm(gradient: Floats, most: float | None) -> float:
    """Shorten a gradient, in place, to at most this length; the length that it had.

    Its direction stays. One of which a number, or the length, is not finite is left as it is.
    """
    norm = math.sqrt(float(gradient.dot(gradient)))  # unlike `@` it does not warn of overflow
    if most is not None and most < norm + 1e-6 < math.inf:
        gradient *= np.float32(most / (norm + 1e-6))
    return norm
