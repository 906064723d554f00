"""Fully connected networks for vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rillflow.policies.heads import Headed
from rillflow.policies.noisy import linear
from rillflow.policies.spec import PolicySpec


class Layers(nn.ModuleList):
    """Linear layers, each with an activation behind it; parameters are named `0.weight`, ..."""

    middle: Tensor
    factor: Tensor

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int],
        activation: str,
        scale: tuple[Any, Any] | None = None,
        linear: Callable[[int, int], nn.Linear] = nn.Linear,
    ) -> None:
        """With a `scale`, what is subtracted from the inputs and what they are multiplied by."""
        sizes = (inputs, *widths)
        super().__init__(linear(a, b) for a, b in pairwise(sizes))
        self.inputs = inputs
        self.activation = torch.tanh if activation == "tanh" else torch.relu
        self.features = sizes[-1]
        self.scaled = scale is not None
        if scale is not None:  # they follow from the spec, so they are no weights
            self.register_buffer("middle", torch.tensor(scale[0]), persistent=False)
            self.register_buffer("factor", torch.tensor(scale[1]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, ...] to [N, features]; behind the inputs there may be a mask."""
        x = x.flatten(1).float()
        if x.shape[1] > self.inputs:
            x = x[:, : self.inputs]
        if self.scaled:
            x = (x - self.middle) * self.factor
        for layer in self:
            x = self.activation(layer(x))
        return x


def vector_layers(spec: PolicySpec) -> Layers:
    """The layers a spec asks for behind a vector."""
    return Layers(
        spec.observation_size,
        spec.hidden,
        spec.activation,
        spec.observation_scale,
        partial(linear, spec),
    )


class Mlp(Headed):
    """An actor and a critic, with a trunk each or one for both, or q values."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        self.trunk = vector_layers(spec)
        if spec.has_critic:
            self.critic = vector_layers(spec)
        self.add_heads(self.trunk.features)

    def forward(self, obs: Tensor) -> tuple[Tensor, ...]:
        """`(outputs, values)` or `(q values,)` of observations [N, ...]."""
        critic = self.critic(obs) if self.spec.has_critic else None
        return self.heads(self.trunk(obs), critic)

    def values(self, obs: Tensor) -> Tensor:
        """Values [N] alone: an actor with a trunk of its own is not evaluated."""
        return self.value((self.critic if self.spec.has_critic else self.trunk)(obs))
