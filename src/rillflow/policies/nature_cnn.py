"""The convolutional network of deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from rillflow.policies.heads import Headed
from rillflow.policies.spec import PolicySpec


class Convolutions(nn.Module):
    """Images of uint8 to features: three convolutions and one dense layer, with relu behind each.

    Images may be [C, H, W] or [H, W, C]. Inside they are kept channels-last in memory, which is
    what the convolutions of CPUs are fast at; pixels are scaled to [0, 1] here, so that they
    travel and are stored as single bytes. It is the first weights that are scaled: they are few,
    and the product is the same.
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
        x = channels_last(x).float()  # reordered while a pixel is one byte, not four
        x = conv2d(x, self.conv1.weight / 255, self.conv1.bias, self.conv1.stride)
        # relu in place: no gradient needs what it overwrites
        x = self.conv2(torch.relu_(x))
        x = self.conv3(torch.relu_(x))
        return torch.relu_(self.dense(torch.relu_(x).flatten(1)))


def channels_last(images: Tensor) -> Tensor:
    """Images [N, C, H, W] with the channels of a pixel side by side in memory.

    >>> channels_last(torch.zeros(2, 4, 6, 6)).is_contiguous(memory_format=torch.channels_last)
    True

    Channel by channel, which is several times faster than torch's own way for the few channels
    that images have.
    """
    if images.is_contiguous(memory_format=torch.channels_last) or images.shape[1] > 16:
        return images.contiguous(memory_format=torch.channels_last)
    ordered = torch.empty_like(images, memory_format=torch.channels_last)
    for channel in range(images.shape[1]):
        ordered[:, channel] = images[:, channel]
    return ordered


class NatureCnn(Headed):
    """Heads on one convolutional trunk."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        self.trunk = Convolutions(spec)
        self.add_heads(self.trunk.features)

    def forward(self, obs: Tensor) -> tuple[Tensor, ...]:
        """`(outputs, values)` or `(q values,)` of images [N, ...]."""
        return self.heads(self.trunk(obs))
