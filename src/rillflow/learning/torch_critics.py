"""Values of continuous actions, and single numbers, in torch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rillflow.learning.torch_layers import Layers, outputs_of
from rillflow.policies.modules import QOfAction, Scalar
from rillflow.policies.torch_normalizer import TorchNormalizer
from rillflow.policies.weights import check_weights


class TorchModule:
    """A network beside the policy: what the learner asks of each."""

    normalizer: TorchNormalizer | None = None
    """what observations go through before the layers see them; None: nothing"""

    def __init__(self, network: nn.Module, first: Mapping[str, NDArray[Any]], device: str) -> None:
        self.network = network.to(device)
        self.device = torch.device(device)
        self.set_weights(first)

    def get_weights(self) -> dict[str, NDArray[Any]]:
        """A copy of all parameters, by name."""
        return {
            name: np.array(tensor.detach().cpu().numpy(), order="C")
            for name, tensor in self.network.state_dict().items()
        }

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Copy weights into the network, whose parameters stay the same objects."""
        own = self.network.state_dict()
        check_weights(weights, {name: tuple(tensor.shape) for name, tensor in own.items()})
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(torch.tensor(weights[name]))


class _Stack(nn.Module):
    """A linear layer, or several side by side: [N, in] or [K, N, in] to [K, N, out]."""

    def __init__(self, fan_in: int, fan_out: int, copies: int) -> None:
        super().__init__()
        lead = () if copies == 1 else (copies,)
        self.weight = nn.Parameter(torch.empty(*lead, fan_out, fan_in))
        self.bias = nn.Parameter(torch.empty(*lead, fan_out))

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.ndim == 2:
            return nn.functional.linear(x, self.weight, self.bias)
        if x.ndim == 2:
            x = x.expand(len(self.weight), *x.shape)
        return torch.baddbmm(self.bias[:, None], x, self.weight.transpose(1, 2))


class _CriticNetwork(nn.Module):
    def __init__(self, description: QOfAction) -> None:
        super().__init__()
        spec, copies = description.spec, description.copies
        sizes = (description.inputs, *spec.hidden)
        self.trunk = nn.ModuleList(_Stack(a, b, copies) for a, b in pairwise(sizes))
        self.value_head = _Stack(sizes[-1], 1, copies)
        self.activation = torch.tanh if spec.activation == "tanh" else torch.relu

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.trunk:
            x = self.activation(layer(x))
        values: Tensor = self.value_head(x)
        return values.squeeze(-1)


class Critic(TorchModule):
    """Values of observations and actions: [N], or [copies, N] of several networks."""

    def __init__(self, description: QOfAction, seed: int | list[int], device: str = "cpu") -> None:
        network = _CriticNetwork(description)
        if description.spec.normalize_observations:
            self.normalizer = network.normalizer = TorchNormalizer(
                description.spec.observation_shape, description.spec.loosely
            )
        super().__init__(network, description.first_weights(seed), device)
        self.spec = description.spec
        middle, half = self.spec.action_scale
        self._middle = torch.tensor(middle, device=self.device)
        self._inverse = torch.tensor(1 / half, device=self.device)
        scale = self.spec.observation_scale
        self._scale = None
        if scale is not None:
            self._scale = [torch.tensor(part, device=self.device) for part in scale]
        self.layers: Layers | None = Layers(list(self.network.parameters()), self.spec.activation)
        """the layers, for passes in few operations; None: passes as torch makes them"""

    def __call__(self, obs: Tensor, actions: Tensor) -> Tensor:
        """How good actions [N, *shape] are on observations [N, ...]."""
        rows = (obs if self.normalizer is None else self.normalizer(obs)).flatten(1).float()
        if self._scale is not None:
            rows = (rows - self._scale[0]) * self._scale[1]
        taken = (actions.flatten(1) - self._middle) * self._inverse
        if self.layers is None:
            values: Tensor = self.network(torch.cat([rows, taken], 1))
            return values
        return outputs_of(self.layers, rows.mT, taken.mT).squeeze(-2)


class _NumberNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))


class Number(TorchModule):
    """One number that is learned."""

    def __init__(self, description: Scalar, seed: int | list[int], device: str = "cpu") -> None:
        super().__init__(_NumberNetwork(), description.first_weights(seed), device)

    def __call__(self) -> Tensor:
        """The number."""
        value: Tensor = self.network.value  # type: ignore[assignment]
        return value if torch.is_grad_enabled() else value.detach()

    @torch.no_grad()
    def follow(self, value: Any, part: float) -> Tensor:
        """Go a part of the way to a value, the first time all of it; where it is then, a constant.

        What is not finite is not followed.
        """
        own: Tensor = self.network.value  # type: ignore[assignment]
        towards = torch.where(own == 0, value, own + part * (value - own))
        own.copy_(torch.where(torch.isfinite(towards), towards, own))
        return own.detach().clone()
