"""The convolutional network of deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rillflow.models.heads import Headed
from rillflow.policies.spec import PolicySpec


class Convolutions(nn.Module):
    """Images of uint8 to features: three convolutions and one dense layer, with relu behind each.

    Images may be [C, H, W] or [H, W, C]. Inside they are kept channels-last in memory, which is
    what the convolutions of CPUs are fast at; pixels are scaled to [0, 1] here, so that they
    travel and are stored as single bytes.
    """

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.channels_first = spec.channels_first
        self.features = spec.image_features
        shape = spec.observation_shape
        channels, *sides = shape if self.channels_first else (shape[2], *shape[:2])
        self.conv1 = nn.Conv2d(channels, 32, 8, 4)
        self.conv2 = nn.Conv2d(32, 64, 4, 2)
        self.conv3 = nn.Conv2d(64, 64, 3, 1)
        for kernel, stride in ((8, 4), (4, 2), (3, 1)):
            sides = [(side - kernel) // stride + 1 for side in sides]
        self.dense = nn.Linear(64 * sides[0] * sides[1], self.features)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """[N, ...] of uint8 to [N, features]."""
        x = images if self.channels_first else images.permute(0, 3, 1, 2)
        # reordered while a pixel is one byte, not four
        x = x.contiguous(memory_format=torch.channels_last).float() / 255
        for conv in (self.conv1, self.conv2, self.conv3):
            x = torch.relu(conv(x))
        return torch.relu(self.dense(x.flatten(1)))


class NatureCnn(Headed):
    """Heads on one convolutional trunk."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        self.trunk = Convolutions(spec)
        self.add_heads(self.trunk.features)

    def forward(self, obs: Tensor) -> tuple[Tensor, ...]:
        """`(outputs, values)` or `(q values,)` of images [N, ...]."""
        return self.heads(self.trunk(obs))
