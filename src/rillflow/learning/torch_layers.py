"""Fully connected layers in torch that go back by the chain rule in closed form.

They compute what autograd would, in a third of the operations: for small networks the time goes to
calling operations, not to computing. As in `numpy_layers`, arrays are [features, N], one column per
row of experience, and layers of an ensemble have weights [K, out, in] and give [K, out, N].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_CONSTANT = 0.5 * math.log(2 * math.pi) + 2 * math.log(2)
"""of the log-probability, for each number of an action"""
_through_clamp: Any = torch.ops.aten.hardtanh_backward.default
_through_relu: Any = torch.ops.aten.threshold_backward.default
_through_tanh: Any = torch.ops.aten.tanh_backward.default


class Layers:
    """Linear layers, an activation behind each but the last.

    Args:
        parameters: weight and bias of each layer, in turn; they stay where they are in memory.
        activation: "tanh" or "relu".
    """

    def __init__(self, parameters: Sequence[Tensor], activation: str) -> None:
        self.parameters = tuple(parameters)
        self.tanh = activation == "tanh"
        weights = [parameter.detach() for parameter in parameters[::2]]
        self.weights = weights
        self.turned = [weight.mT for weight in weights]
        self.biases = [parameter.detach()[..., None] for parameter in parameters[1::2]]
        self.learns = True
        """whether the loss at hand trains them"""
        self.product = torch.bmm if weights[0].ndim == 3 else torch.mm
        self.affine = torch.baddbmm if weights[0].ndim == 3 else torch.addmm
        # all members of an ensemble see the same input: their first layers are one product
        self.first = weights[0].flatten(0, -2)
        self.first_bias = self.biases[0].reshape(-1, 1)

    def forward(self, x: Tensor) -> list[Tensor]:
        """What came in, [inputs, N], and what came out of each layer."""
        out = torch.addmm(self.first_bias, self.first, x)
        if self.weights[0].ndim == 3:
            out = out.view(*self.weights[0].shape[:2], -1)
        passed = [x, out]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            out = out.tanh_() if self.tanh else out.relu_()
            out = self.affine(bias, weight, out)
            passed.append(out)
        return passed

    def backward(
        self, passed: Sequence[Tensor], d: Tensor, inputs: slice | None = None
    ) -> tuple[list[Tensor | None], Tensor | None]:
        """The gradients of the parameters, None where nothing is learned; and of some inputs.

        Args:
            passed: what `forward` gave.
            d: the gradient of what came out last.
            inputs: of which inputs the gradient is wanted, summed over the members; None: of none.
        """
        gradients: list[Tensor | None] = [None] * len(self.parameters)
        last = len(self.weights) - 1
        for index in range(last, -1, -1):
            if index < last:
                out = passed[index + 1]
                d = _through_tanh(d, out) if self.tanh else _through_relu(d, out, 0)
            if self.learns:
                gradients[2 * index + 1] = d.sum(-1)
                if index:
                    gradients[2 * index] = self.product(d, passed[index].mT)
            if index:  # a product along an axis of one takes three times as long
                turned = self.turned[index]
                d = turned * d if turned.shape[-1] == 1 else self.product(turned, d)
        flat = d.reshape(-1, d.shape[-1])
        if self.learns:
            gradients[0] = torch.mm(flat, passed[0].mT).view(self.weights[0].shape)
        return gradients, None if inputs is None else torch.mm(self.first[:, inputs].mT, flat)


def outputs_of(layers: Layers, fixed: Tensor, varied: Tensor | None = None) -> Tensor:
    """What comes out of layers; see `Outputs`."""
    if torch.is_grad_enabled():
        out: Tensor = _apply(Outputs)(layers, fixed, varied, *layers.parameters)
        return out
    return layers.forward(fixed if varied is None else torch.cat([fixed, varied]))[-1]


def squashed(layers: Layers, columns: Tensor, noise: Tensor, bounds: Any) -> tuple[Tensor, Tensor]:
    """A sample in -1 ... 1 and its log-probability; see `Squashed`."""
    if torch.is_grad_enabled():
        found: tuple[Tensor, Tensor] = _apply(Squashed)(
            layers, columns, noise, bounds, *layers.parameters
        )
        return found
    squeezed, logp, _ = _squash(layers.forward(columns)[-1], noise, bounds)
    return squeezed.mT, logp


def _squash(outputs: Tensor, noise: Tensor, bounds: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What is drawn, squeezed, and its log-probability; and how far it is from the mean."""
    mean, raw = outputs.chunk(2)
    log_std = raw.clamp(*bounds)
    spread = log_std.exp().mul_(noise)
    drawn = mean + spread
    # log(1 - tanh(u)^2) = 2 * (log 2 - u - softplus(-2u)), without its loss of digits
    terms = torch.nn.functional.softplus(-2 * drawn).add_(drawn).mul_(2).sub_(log_std)
    terms.addcmul_(noise, noise, value=-0.5)
    return drawn.tanh_(), terms.sum(0).sub_(_CONSTANT * len(noise)), spread


class Squashed(torch.autograd.Function):
    """A sample of a squashed Gaussian in -1 ... 1, [N, width], and its log-probability [N]."""

    @staticmethod
    def forward(
        ctx: Any, layers: Layers, columns: Tensor, noise: Tensor, bounds: Any, *parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Pass on columns [inputs, N]; `noise` is [width, N], `bounds` those of log deviations."""
        passed = layers.forward(columns)
        squeezed, logp, spread = _squash(passed[-1], noise, bounds)
        ctx.layers, ctx.bounds = layers, bounds
        ctx.save_for_backward(*parameters, *passed, spread, squeezed)
        return squeezed.mT.clone(), logp

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_rows: Tensor, d_logp: Tensor) -> tuple[Any, ...]:
        """The gradients of the parameters."""
        layers, nothing = ctx.layers, (None, None, None, None)
        if not layers.learns:
            return (*nothing, *(None for _ in layers.parameters))
        *passed, spread, squeezed = ctx.saved_tensors[len(layers.parameters) :]
        d_drawn = _through_tanh(d_rows.mT, squeezed).addcmul_(squeezed, d_logp, value=2)
        d_log_std = (d_drawn * spread).sub_(d_logp)
        d_log_std = _through_clamp(d_log_std, passed[-1][len(squeezed) :], *ctx.bounds)
        gradients, _ = layers.backward(passed, torch.cat([d_drawn, d_log_std]))
        return (*nothing, *gradients)


class Outputs(torch.autograd.Function):
    """What comes out of layers, [..., out, N]; of some of the inputs a gradient may be wanted."""

    @staticmethod
    def forward(
        ctx: Any, layers: Layers, fixed: Tensor, varied: Tensor | None, *parameters: Tensor
    ) -> Tensor:
        """Pass on the columns `fixed` above those of `varied`, which may carry a gradient."""
        passed = layers.forward(fixed if varied is None else torch.cat([fixed, varied]))
        ctx.layers, ctx.size = layers, len(fixed)
        ctx.save_for_backward(*parameters, *passed[:-1])
        return passed[-1]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Any, ...]:
        """The gradients of the parameters, and of `varied`."""
        layers = ctx.layers
        passed = ctx.saved_tensors[len(layers.parameters) :]
        inputs = slice(ctx.size, None) if ctx.needs_input_grad[2] else None
        if not (layers.learns or inputs):
            return (None, None, None, *(None for _ in layers.parameters))
        gradients, d_varied = layers.backward(passed, d, inputs)
        return (None, None, d_varied, *gradients)


def _apply(function: type[torch.autograd.Function]) -> Any:
    return function.apply
