"""What looks like an image, and where its channels are: one rule for environments and networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

Channels: TypeAlias = Literal["auto", "first", "last"]
CHANNELS: tuple[Channels, ...] = ("auto", "first", "last")

SMALLEST_SIDE = 5
"""pixels; what has fewer, such as the board of a small game, is a table"""


@dataclass(frozen=True)
class Image:
    """How an array is read as an image."""

    height: int
    width: int
    channels: int
    order: Literal["first", "last", "none"]
    """where the axis of the channels is; an image of two axes has none"""

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width, in pixels."""
        return self.height, self.width

    def __str__(self) -> str:
        return f"{self.height}x{self.width}x{self.channels}"


def image_in(space: Any, channels: Channels = "auto") -> Image | None:
    """The image that arrays of this space are; None if they do not look like images.

    An image has three axes, or two and whole pixels (uint8 or bool), and at least 5 pixels in
    each direction: what is smaller, or has two axes of floats, is a table.

    >>> from gymnasium.spaces import Box
    >>> print(image_in(Box(0, 1, (10, 10, 4), bool)), image_in(Box(0, 255, (3, 96, 80), np.uint8)))
    10x10x4 96x80x3
    >>> image_in(Box(0, 1, (3, 3, 2))) is None, image_in(Box(0, 1, (10, 10))) is None
    (True, True)
    """
    shape = tuple(getattr(space, "shape", None) or ())
    whole = space.dtype in (np.uint8, np.bool_)
    if len(shape) != 3 and not (len(shape) == 2 and whole):
        return None
    image = as_image(shape, getattr(space, "channels", channels))
    return image if image is not None and min(image.sides) >= SMALLEST_SIDE else None


def as_image(shape: tuple[int, ...], channels: Channels = "auto") -> Image | None:
    """An array of this shape read as an image, whether it looks like one or not; None: it cannot.

    Which axis has the channels is told by `channels`, or else by the shape: two neighbouring axes
    of one length are height and width; if there are none such, the shorter one of the outer axes
    has the channels; and if all is the same, the last one.

    >>> as_image((17, 19, 19)).order, as_image((8, 8, 111)).order, as_image((4, 210, 160)).order
    ('first', 'last', 'first')
    """
    if len(shape) == 2:
        return Image(*shape, channels=1, order="none")
    if len(shape) != 3:
        return None
    first, middle, last = shape
    if channels == "auto":
        if (first == middle) != (middle == last):
            channels = "last" if first == middle else "first"
        else:
            channels = "first" if first < last else "last"
    if channels == "first":
        return Image(middle, last, first, "first")
    return Image(first, middle, last, "last")
