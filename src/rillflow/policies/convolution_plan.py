"""Which convolutions look at an image, chosen from its size. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass

from rillflow.images import Image

NATURE_FROM = 36
"""pixels a side that the three convolutions of the Nature network need"""
MOST_PIXELS = 128
"""a side above it is averaged, where an encoder may"""
_FEW = 12
"""pixels a side that the last convolution of the small network may be given"""
_NATURE_FEATURES, _SMALL_FEATURES = 512, 128

Pair = tuple[int, int]


@dataclass(frozen=True)
class Convolution:
    """One layer; pairs are of height and width."""

    channels: int
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)

    def after(self, sides: Pair) -> Pair:
        """Height and width of what it gives for an image of these."""
        height, width = (
            (side + 2 * padding - kernel) // stride + 1
            for side, kernel, stride, padding in zip(
                sides, self.kernel, self.stride, self.padding, strict=True
            )
        )
        return height, width


@dataclass(frozen=True)
class ConvolutionPlan:
    """Layers for images of one size."""

    pool: int
    """pixels a side that are averaged first; 1: none"""
    layers: tuple[Convolution, ...]
    flat: int
    """how many numbers the last convolution gives"""
    features: int
    """of the dense layer behind it"""

    def __str__(self) -> str:
        shown = [f"{c.channels}@{_pair(c.kernel)}/{_pair(c.stride)}" for c in self.layers]
        pooled = [f"mean of {self.pool}x{self.pool}"] if self.pool > 1 else []
        return ", ".join([*pooled, *shown, str(self.features)])


def plan_for(image: Image, features: int | None = None, pools: bool = False) -> ConvolutionPlan:
    """The layers for an image.

    From 36 pixels a side on it is the Nature network (Mnih et al. 2015). Below, it is a small one:
    3x3 convolutions, which take every second pixel of a side as long as it is above 12.

    >>> print(plan_for(Image(84, 84, 4, "first")))
    32@8x8/4x4, 64@4x4/2x2, 64@3x3/1x1, 512
    >>> print(plan_for(Image(10, 10, 4, "last")), "|", plan_for(Image(40, 10, 3, "last")))
    32@3x3/1x1, 128 | 16@3x3/2x1, 32@3x3/2x1, 32@3x3/1x1, 128

    Args:
        image: how large it is.
        features: of the dense layer; None: what suits the convolutions.
        pools: whether pixels are averaged until no side has more than 128.
    """
    pool = -(-max(image.sides) // MOST_PIXELS) if pools else 1
    sides = image.height // pool, image.width // pool
    nature = min(sides) >= NATURE_FROM
    layers = _nature() if nature else _small(sides)
    for layer in layers:
        sides = layer.after(sides)
    usual = _NATURE_FEATURES if nature else _SMALL_FEATURES
    return ConvolutionPlan(pool, layers, layers[-1].channels * sides[0] * sides[1],
                           usual if features is None else features)  # fmt: skip


def _nature() -> tuple[Convolution, ...]:
    sizes = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
    return tuple(Convolution(c, (kernel, kernel), (stride, stride)) for c, kernel, stride in sizes)


def _small(sides: Pair) -> tuple[Convolution, ...]:
    layers: list[Convolution] = []
    while max(sides) > _FEW:
        tall, wide = (2 if side > _FEW else 1 for side in sides)
        layers.append(Convolution(32 if layers else 16, (3, 3), (tall, wide), (1, 1)))
        sides = layers[-1].after(sides)
    kernel = min(3, sides[0]), min(3, sides[1])
    return (*layers, Convolution(32, kernel, (1, 1)))


def _pair(pair: Pair) -> str:
    return f"{pair[0]}x{pair[1]}"
