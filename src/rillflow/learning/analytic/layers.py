"""Fully connected layers: forwards, and backwards by the chain rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rillflow.policies.sampling import Floats

Weights = Mapping[str, Floats]


class Linear:
    """`weight @ x + bias`; what it learned from goes where its gradients are kept."""

    def __init__(self, name: str, weights: Weights, gradients: Weights) -> None:
        self.weight, self.bias = weights[f"{name}.weight"], weights[f"{name}.bias"][:, None]
        self.d_weight, self.d_bias = gradients[f"{name}.weight"], gradients[f"{name}.bias"]

    def forward(self, x: Floats, out: Floats | None = None) -> Floats:
        """[inputs, N] to [outputs, N]."""
        out = np.matmul(self.weight, x, out=out)
        out += self.bias
        return out

    def backward(self, x: Floats, d_out: Floats) -> None:
        """Leave the gradients of weights and bias."""
        np.matmul(d_out, x.T, out=self.d_weight)
        # a product with ones is a sum that BLAS does, several times faster than `sum`
        np.matmul(d_out, _ones(d_out.shape[1]), out=self.d_bias)

    def d_input(self, d_out: Floats, out: Floats | None = None) -> Floats:
        """The gradient of what came in, [inputs, N]."""
        return np.matmul(self.weight.T, d_out, out=out)


class Layers:
    """Linear layers with an activation behind each. It remembers its last pass of learning."""

    def __init__(self, linears: Sequence[Linear], activation: str) -> None:
        self.linears = linears
        self.tanh = activation == "tanh"
        self._x: Floats = np.empty((0, 0), np.float32)
        # per layer: what came out, its gradient, and room for the slope of the activation
        self._hidden: list[Floats] = []
        self._d_hidden: list[Floats] = []
        self._slopes: list[Floats] = []

    def forward(self, x: Floats) -> Floats:
        """[inputs, N] to [features, N], remembered for `backward`; overwritten by the next."""
        self._allocate(x.shape[1])
        self._x = x
        for linear, out in zip(self.linears, self._hidden, strict=True):
            x = self._activate(linear.forward(x, out))
        return x

    def apply(self, x: Floats) -> Floats:
        """The same, in an array of its own and not remembered."""
        for linear in self.linears:
            x = self._activate(linear.forward(x))
        return x

    def backward(self, d_features: Floats) -> None:
        """Leave the gradients of the last `forward`; `d_features` is overwritten."""
        d = d_features
        for index in reversed(range(len(self.linears))):
            self._through_activation(d, index)
            self.linears[index].backward(self._hidden[index - 1] if index else self._x, d)
            if index:  # nobody asks for the gradient of the observations
                d = self.linears[index].d_input(d, out=self._d_hidden[index - 1])

    def _activate(self, x: Floats) -> Floats:
        activated: Floats = np.tanh(x, out=x) if self.tanh else np.maximum(x, _ZERO, out=x)
        return activated

    def _through_activation(self, d: Floats, index: int) -> None:
        """Multiply `d` with the slope of the activation, which follows from its result."""
        hidden, slope = self._hidden[index], self._slopes[index]
        if self.tanh:
            np.multiply(hidden, hidden, out=slope)
            np.subtract(_ONE, slope, out=slope)
        else:
            np.greater(hidden, _ZERO, out=slope, casting="unsafe")
        d *= slope

    def _allocate(self, n: int) -> None:
        if self._hidden and self._hidden[0].shape[1] == n:
            return
        widths = [len(linear.bias) for linear in self.linears]
        self._hidden, self._d_hidden, self._slopes = (
            [np.empty((width, n), np.float32) for width in widths] for _ in range(3)
        )


_ZERO, _ONE = np.float32(0), np.float32(1)
_ONES = np.ones(1024, np.float32)


def _ones(n: int) -> Floats:
    global _ONES
    if len(_ONES) < n:
        _ONES = np.ones(2 * n, np.float32)
    return _ONES[:n]
