"""Linear layers with noise in torch; `noise` says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rillflow.policies.noise import Noise, Pair

if TYPE_CHECKING:
    from rillflow.policies.spec import PolicySpec


class NoisyLinear(nn.Linear):
    """A linear layer whose weights are moved by noise, while it has some."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.weight_sigma = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias_sigma = nn.Parameter(torch.zeros(outputs))
        self.noise: tuple[Tensor, Tensor] | None = None
        """of the outputs and of the inputs; None: there is none"""

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        if self.noise is None:
            return super().forward(x)
        outputs, inputs = self.noise
        weight = torch.addcmul(self.weight, self.weight_sigma, torch.outer(outputs, inputs))
        return nn.functional.linear(x, weight, self.bias + self.bias_sigma * outputs)


def linear(spec: PolicySpec, inputs: int, outputs: int) -> nn.Linear:
    """A layer that is as noisy as the spec says."""
    return NoisyLinear(inputs, outputs) if spec.noisy else nn.Linear(inputs, outputs)


class NetworkNoise:
    """The noise of all layers of a network; without noisy layers it does nothing."""

    def __init__(self, network: nn.Module) -> None:
        self._layers = [one for one in network.modules() if isinstance(one, NoisyLinear)]
        self._noise = Noise([(one.out_features, one.in_features) for one in self._layers])

    def __bool__(self) -> bool:
        return bool(self._layers)

    def draw(self, rng: np.random.Generator) -> Sequence[Pair]:
        """Draw noise, and have it from now on."""
        drawn = self._noise.draw(rng) if self._layers else []
        self.set(drawn)
        return drawn

    def set(self, drawn: Sequence[Pair]) -> None:
        """Have this noise from now on."""
        for layer, pair in zip(self._layers, drawn, strict=True):
            outputs, inputs = (self._tensor(part, layer) for part in pair)
            layer.noise = outputs, inputs

    def stop(self) -> None:
        """Have none."""
        for layer in self._layers:
            layer.noise = None

    def _tensor(self, part: Any, layer: NoisyLinear) -> Tensor:
        return torch.from_numpy(part).to(layer.weight.device)
