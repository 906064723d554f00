"""Fully connected layers in NumPy: forwards, and backwards by the chain rule.

Arrays are [features, N], one column per row of experience: weights multiply from the left as they
are stored, and sums over a few actions run along whole vectors. Layers of an ensemble have weights
[K, out, in] and give [K, out, N].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rillflow.policies.sampling import Floats

Weights = Mapping[str, Floats]


class Linear:
    """`weight @ x + bias`; its gradients go where those of the whole network are kept."""

    def __init__(self, name: str, weights: Weights, gradients: Weights) -> None:
        self.weight, self.bias = weights[f"{name}.weight"], weights[f"{name}.bias"][..., None]
        self.d_weight, self.d_bias = gradients[f"{name}.weight"], gradients[f"{name}.bias"]
        self._turned = self.weight.swapaxes(-1, -2)
        self._one_output = self.weight.shape[-2] == 1
        self._several = self.weight.ndim == 3

    def forward(self, x: Floats, out: Floats | None = None) -> Floats:
        """[inputs, N] to [outputs, N]."""
        # the same product: of two matrices `dot` is a microsecond sooner at work than `matmul`
        out = np.matmul(self.weight, x, out=out) if self._several else self.weight.dot(x, out)
        out += self.bias
        return out

    def backward(self, x: Floats, d_out: Floats, add: bool = False) -> None:
        """Leave the gradients of weights and bias, or add to those that are there."""
        # a product with ones is a sum that BLAS does, several times faster than `sum`
        ones = _ones(d_out.shape[-1:])
        if not (add or self._several):
            d_out.dot(x.T, self.d_weight)
            d_out.dot(ones, self.d_bias)
            return
        turned = x.swapaxes(-1, -2)
        if add:
            self.d_weight += np.matmul(d_out, turned)
            self.d_bias += np.matmul(d_out, ones)
        else:
            np.matmul(d_out, turned, out=self.d_weight)
            np.matmul(d_out, ones, out=self.d_bias)

    def d_input(self, d_out: Floats, out: Floats | None = None) -> Floats:
        """The gradient of what came in, [inputs, N]."""
        if out is not None and self._one_output:  # BLAS takes four times as long for a product
            np.multiply(self._turned, d_out, out=out)  # along an axis of one
            return out
        if self._several:
            return np.matmul(self._turned, d_out, out=out)
        return self._turned.dot(d_out, out)


class Pass:
    """What one pass through the layers remembers until it is gone back over."""

    __slots__ = ("hidden", "rows", "x")

    def __init__(self, hidden: list[Floats], rows: int) -> None:
        self.x: Floats = _NOTHING
        self.rows = rows
        self.hidden = hidden
        """what came out of each layer, behind its activation"""

    @property
    def features(self) -> Floats:
        """What came out of the last layer; without layers, what went in."""
        return self.hidden[-1] if self.hidden else self.x


class Layers:
    """Linear layers with an activation behind each."""

    def __init__(self, linears: Sequence[Linear], activation: str) -> None:
        self.linears = linears
        self.tanh = activation == "tanh"
        self._rows = -1
        self._free: list[Pass] = []
        self._used: list[Pass] = []
        # per layer: the gradient of what came out, and room for passes that nobody remembers;
        # arrays of this size are costly to allocate each time
        self._d_hidden: list[Floats] = []
        self._passing: list[Floats] = []
        self._slopes: dict[tuple[int, ...], Floats] = {}
        """room for the slope of an activation, one for all layers of a shape"""

    def forward(self, x: Floats) -> Pass:
        """[inputs, N] to [features, N], remembered until `forget`."""
        if x.shape[-1] != self._rows:
            self._resize(x.shape[-1])
        one = self._free.pop() if self._free else Pass(self._arrays(self._rows), self._rows)
        self._used.append(one)
        one.x = x
        self._through(x, one.hidden)
        return one

    def apply(self, x: Floats) -> Floats:
        """The same, not remembered: it is overwritten by the next such pass."""
        if not self._passing or self._passing[0].shape[-1] != x.shape[-1]:
            self._passing = self._arrays(x.shape[-1])
        return self._through(x, self._passing)

    def forget(self) -> None:
        """Passes are over: the next ones of as many rows write where they did."""
        if self._used:
            self._free += [one for one in self._used if one.rows == self._rows]
            self._used = []

    def d_features(self, head: Linear, d_out: Floats) -> Floats:
        """The gradient of the features, from that of a head's results; overwritten by the next."""
        if d_out.shape[-1] != self._rows:
            self._resize(d_out.shape[-1])
        return head.d_input(d_out, out=self._d_hidden[-1] if self._d_hidden else None)

    def backward(
        self,
        one: Pass,
        d: Floats,
        *,
        learns: bool = True,
        add: bool = False,
        inputs: slice | None = None,
    ) -> Floats | None:
        """Leave the gradients of a pass; `d`, that of its features, is overwritten.

        Args:
            one: the pass.
            d: the gradient of its features.
            learns: whether the weights' gradients are wanted.
            add: whether these are added to what is there.
            inputs: of which inputs the gradient is wanted, summed over an ensemble; None: of none.
        """
        if d.shape[-1] != self._rows:
            self._resize(d.shape[-1])
        for index in reversed(range(len(self.linears))):
            self._through_activation(one.hidden[index], d)
            linear = self.linears[index]
            if learns:
                linear.backward(one.hidden[index - 1] if index else one.x, d, add)
            if index:
                d = linear.d_input(d, out=self._d_hidden[index - 1])
        return None if inputs is None else self._d_inputs(d, inputs)

    def _d_inputs(self, d: Floats, inputs: slice) -> Floats:
        """The gradient of some of what came in, behind that of what left the first layer."""
        if not self.linears:
            return d[inputs] if d.ndim == 2 else np.add.reduce(d[:, inputs], 0)
        weight = self.linears[0].weight
        # all members of an ensemble saw the same: the sum over them is part of the product
        flat = weight.reshape(-1, weight.shape[-1])[:, inputs]
        d_inputs: Floats = np.matmul(flat.T, d.reshape(len(flat), -1))
        return d_inputs

    def _through(self, x: Floats, results: list[Floats]) -> Floats:
        """What comes out last; the result of each layer is left in these arrays."""
        for linear, out in zip(self.linears, results, strict=True):
            linear.forward(x, out)
            if self.tanh:
                np.tanh(out, out=out)
            else:  # two arrays are compared four times as fast as an array and a number
                np.maximum(out, _zeros(out.shape), out=out)
            x = out
        return x

    def _through_activation(self, hidden: Floats, d: Floats) -> None:
        """Multiply `d` with the slope of the activation, which follows from its result."""
        slope = self._slopes.get(d.shape)
        if slope is None:
            slope = self._slopes[d.shape] = np.empty_like(d)
        if self.tanh:
            np.multiply(hidden, hidden, out=slope)
            np.subtract(_ONE, slope, out=slope)
        else:
            np.greater(hidden, _ZERO, out=slope, casting="unsafe")
        d *= slope

    def _arrays(self, rows: int) -> list[Floats]:
        return [np.empty((*linear.bias.shape[:-1], rows), np.float32) for linear in self.linears]

    def _resize(self, rows: int) -> None:
        self._rows = rows
        self._free = []
        self._d_hidden, self._slopes = self._arrays(rows), {}


_ZERO, _ONE = np.float32(0), np.float32(1)
_NOTHING = np.empty((0, 0), np.float32)
_MOST_SHAPES = 64


class _Constant:
    """One number as often as is wanted, in any shape; nobody writes there."""

    def __init__(self, number: float) -> None:
        self.number = number
        self._all: Floats = np.empty(0, np.float32)
        self._views: dict[tuple[int, ...], Floats] = {}
        """of that array, by shape"""

    def __call__(self, shape: tuple[int, ...]) -> Floats:
        found = self._views.get(shape)
        return self._view(shape) if found is None else found

    def _view(self, shape: tuple[int, ...]) -> Floats:
        size = math.prod(shape)
        if len(self._all) < size or len(self._views) >= _MOST_SHAPES:
            self._views.clear()
        if len(self._all) < size:
            self._all = np.full(2 * size, self.number, np.float32)
        view = self._views[shape] = self._all[:size].reshape(shape)
        return view


_ones, _zeros = _Constant(1), _Constant(0)
