"""Convolutions that make features of images."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, conv2d

from rillflow.errors import BuildError
from rillflow.images import Channels, as_image, image_in
from rillflow.policies.convolution_plan import plan_for
from rillflow.policies.image_scale import PixelScale, pixel_scale
from rillflow.policies.noisy import linear

if TYPE_CHECKING:
    from rillflow.images import Image
    from rillflow.policies.convolution_plan import ConvolutionPlan
    from rillflow.policies.spec import PolicySpec


def image_encoder(
    space: Any,
    *,
    features: int | None = None,
    channels: Channels = "auto",
    linear: Callable[[int, int], nn.Linear] = nn.Linear,
) -> Convolutions:
    """A module from images [N, ...] of this Box to `features` numbers each: [N, features].

    >>> from gymnasium.spaces import Box
    >>> encoder = image_encoder(Box(0, 1, (10, 10, 4), bool))
    >>> encoder.features, encoder(torch.zeros(3, 10, 10, 4)).shape
    (128, torch.Size([3, 128]))

    Images may come in any dtype; they are scaled by the bounds of their space. Sides above 128
    pixels are averaged first. How its weights begin is for whoever builds it to say: by their
    names, with `initial_weights`.

    Args:
        space: of one image, of two or three axes.
        features: None: as many as suit the size.
        channels: where the channels of three axes are; see `rillflow.images.as_image`.
        linear: what makes the dense layer.
    """
    image = image_in(space, channels) or as_image(space.shape, channels)
    if image is None:
        raise BuildError(f"image_encoder takes images of two or three axes, found {space}.")
    plan = plan_for(image, features, pools=True)
    return Convolutions(image, plan, pixel_scale(space, image), linear)


def convolutions_of(spec: PolicySpec) -> Convolutions:
    """Those that a spec asks for behind its images."""
    assert spec.image is not None, "a policy of vectors has none"
    scale = pixel_scale(spec.observation_space, spec.image)
    return Convolutions(spec.image, spec.convolutions, scale, partial(linear, spec))


_PIECE = 2**24


class Convolutions(nn.Module):
    """Images to features: convolutions and one dense layer, with relu behind each.

    Parameters are named `conv1.weight`, ..., `dense.bias`. Images may be [C, H, W], [H, W, C] or
    [H, W]. Inside they are kept channels-last in memory, which is what the convolutions of CPUs
    are fast at; pixels are scaled here, so that they travel and are stored as single bytes. Where
    zero stays zero it is the first weights that are scaled: they are few, and the product is the
    same.
    """

    low: Tensor
    factor: Tensor

    def __init__(
        self,
        image: Image,
        plan: ConvolutionPlan,
        scale: PixelScale,
        linear: Callable[[int, int], nn.Linear] = nn.Linear,
    ) -> None:
        super().__init__()
        self.order, self.pool = image.order, plan.pool
        self.features = plan.features
        channels = image.channels
        for number, layer in enumerate(plan.layers, start=1):
            conv = nn.Conv2d(channels, layer.channels, layer.kernel, layer.stride, layer.padding)
            self.add_module(f"conv{number}", conv)
            channels = layer.channels
        self.dense = linear(plan.flat, plan.features)
        self.depth = len(plan.layers)
        self.white = scale.white
        self.reduced: torch.dtype | None = None
        """what layers compute in, if not in float32; weights and features are float32 always"""
        if scale.white is None:  # they follow from the space, so they are no weights
            for name, numbers in (("low", scale.low), ("factor", scale.factor)):
                column = torch.tensor(numbers)[:, None, None]
                self.register_buffer(name, column, persistent=False)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """[N, ...] of pixels to [N, features]."""
        if self.reduced is None:
            if torch.is_grad_enabled() or images.is_cuda or torch.compiler.is_compiling():
                return self._features(images)
            # in pieces whose arrays are small enough for the allocator to use them again: of a
            # hundred megabytes each page is asked for anew
            piece = self._piece(images)
            if len(images) <= piece:
                return self._features(images)
            return torch.cat([self._features(part) for part in torch.split(images, piece)])
        with torch.autocast(images.device.type, self.reduced, cache_enabled=False):
            return self._features(images).float()

    @staticmethod
    def _piece(images: Tensor) -> int:
        """How many images are as many floats as fit into `_PIECE` bytes; of 16, 32, ... images
        kernels compute each as they do of a large batch."""
        of_one = 4 * max(1, math.prod(images.shape[1:]))
        return max(16, _PIECE // of_one // 16 * 16)

    def _features(self, images: Tensor) -> Tensor:
        x = images
        if self.order != "first":
            x = images.permute(0, 3, 1, 2) if self.order == "last" else images.unsqueeze(1)
        x = channels_last(x).float()  # reordered while a pixel is one byte, not four
        if self.pool > 1:
            x = avg_pool2d(x, self.pool)
        first = self.get_submodule("conv1")
        assert isinstance(first, nn.Conv2d)
        if self.white is None:
            x = first((x - self.low) * self.factor)
        else:
            x = conv2d(x, first.weight / self.white, first.bias, first.stride, first.padding)
        for number in range(2, self.depth + 1):
            # relu in place: no gradient needs what it overwrites
            x = self.get_submodule(f"conv{number}")(torch.relu_(x))
        return torch.relu_(self.dense(torch.relu_(x).flatten(1)))


def channels_last(images: Tensor) -> Tensor:
    """Images [N, C, H, W] with the channels of a pixel side by side in memory.

    >>> channels_last(torch.zeros(2, 4, 6, 6)).is_contiguous(memory_format=torch.channels_last)
    True

    Channel by channel, which on a processor is several times faster than torch's own way for the
    few channels that images have.
    """
    few = images.shape[1] <= 16 and not images.is_cuda
    if images.is_contiguous(memory_format=torch.channels_last) or not few:
        return images.contiguous(memory_format=torch.channels_last)
    ordered = torch.empty_like(images, memory_format=torch.channels_last)
    for channel in range(images.shape[1]):
        ordered[:, channel] = images[:, channel]
    return ordered
