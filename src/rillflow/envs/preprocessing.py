"""What is done to observations before a policy sees them: size, colour, and how many at once.

    Preprocessing(resize=84, grayscale=True, frame_stack=4)

A value that belongs to the settings of a run: whoever makes environments for a policy, to train, to
evaluate, to record, gives it to `make_envs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from rillflow.envs.image_box import image_box
from rillflow.envs.layout import Layout, layout_of
from rillflow.envs.resizing import Resized
from rillflow.envs.spaces import Array, Observations
from rillflow.errors import BuildError
from rillflow.images import Channels, Image, as_image, image_in

if TYPE_CHECKING:
    from gymnasium.spaces import Box

Resize: TypeAlias = int | tuple[int, ...] | Literal["auto"] | None

MOST_PIXELS = 128
"""a side that an image may have before "auto" shrinks it"""
_GREY = np.array((0.299, 0.587, 0.114), np.float32)
"""how bright red, green and blue are (Recommendation ITU-R BT.601)"""


@dataclass(frozen=True)
class Preprocessing:
    """How observations are changed; as it is made without arguments, not at all."""

    resize: Resize = None
    """pixels a side, or (height, width); "auto": images above 128 pixels a side are shrunk"""
    grayscale: bool = False
    """whether three colours become one"""
    frame_stack: int = 1
    """how many observations, the newest and those before it, are seen as one"""
    channels: Channels = "auto"
    """where images have their channels"""

    @property
    def asked(self) -> list[str]:
        """The settings somebody has asked for, as they are written."""
        given = {
            "resize": self.resize not in (None, "auto") and f"resize={self.resize!r}",
            "grayscale": self.grayscale and "grayscale=True",
            "frame_stack": self.frame_stack > 1 and f"frame_stack={self.frame_stack}",
        }
        return [text for text in given.values() if text]

    def image(self, space: Any) -> Image | None:
        """How observations of this space are read as images."""
        if self.grayscale or self.resize not in (None, "auto"):
            # who asks for it knows that they are images
            return as_image(space.shape, getattr(space, "channels", self.channels))
        return image_in(space, self.channels)

    def size(self, image: Image) -> tuple[int, int]:
        """The height and the width that images get."""
        if self.resize is None:
            return image.sides
        if self.resize == "auto":
            by = -(-max(image.sides) // MOST_PIXELS)
            return max(1, round(image.height / by)), max(1, round(image.width / by))
        if isinstance(self.resize, int):
            return self.resize, self.resize
        height, width = self.resize
        return height, width

    def problems(self) -> list[str]:
        """What is wrong with the numbers, in words."""
        wrong = []
        sides = (self.resize, self.resize) if isinstance(self.resize, int) else self.resize
        if isinstance(sides, tuple) and (len(sides) != 2 or min(sides) < 1):
            wrong.append(
                "resize must be a number of pixels above 0, two of them (height, width), 'auto' or "
                f"None, got {self.resize!r}"
            )
        if self.frame_stack < 1:
            wrong.append(f"frame_stack must be at least 1, got {self.frame_stack!r}")
        return wrong


def preprocessed(seen: Observations, how: Preprocessing, name: str) -> Observations:
    """Observations in the size and the colours that are asked for; frames are stacked elsewhere."""
    space = seen.space
    layout = layout_of(space)
    if layout is not None and how.asked and not only_numbers(layout, how):
        raise BuildError(
            f"environment {name!r}: {', '.join(how.asked)} cannot be done to observations of "
            f"several parts or with a mask of actions ({layout}): leave it out, and do it to one "
            "part in a gymnasium.ObservationWrapper"
        )
    image = how.image(space)
    if image is None:
        if how.grayscale or how.resize not in (None, "auto"):
            raise _no_image(how, space, name)
        return seen
    size = how.size(image)
    grey = how.grayscale and image.channels != 1
    if grey and image.channels != 3:
        raise BuildError(
            f"environment {name!r}: grayscale=True makes one colour of three, and its images have "
            f"{image.channels} channels ({space}): leave it out, or say where the channels are "
            "(channels='first' or 'last')."
        )
    if size == image.sides and not grey:
        return seen
    change = _Change(space, image, size, grey)
    return Observations(change.space, lambda raw: change(seen.encode(raw)))


def only_numbers(layout: Layout, how: Preprocessing) -> bool:
    """Whether all that is asked for is to stack what is one vector anyway."""
    return not (layout.packed or layout.mask_size) and len(how.asked) == (how.frame_stack > 1)


def shrunk_by_default(before: Any, how: Preprocessing) -> str | None:
    """What a person should know of images that nobody asked to resize; None: they are not."""
    image = how.image(before) if how.resize == "auto" else None
    if image is None or how.size(image) == image.sides:
        return None
    height, width = how.size(image)
    return (
        f"images of {image.height}x{image.width} pixels are shrunk to {height}x{width}; "
        f"resize=84, say, makes them smaller still, and resize=None keeps them"
    )


class _Change:
    """Images to images of another size or in grey."""

    def __init__(self, space: Box, image: Image, size: tuple[int, int], grey: bool) -> None:
        first = image.order == "first"
        self._resize = Resized(image.sides, size, 2 if first else 1)
        self._channel = 1 if first else 3
        self._grey = grey
        self._dtype: Any = space.dtype
        # an average of bits is no bit: they become bytes
        self._times = 255 if self._dtype == np.uint8 and int(space.high.max()) == 1 else 1
        sides: Any = (1, 2) if first else (0, 1)
        channels = 1 if grey else image.channels
        shape: tuple[int, ...]
        if image.order == "none":
            sides, shape = None, size
        else:
            shape = (channels, *size) if first else (*size, channels)

        def spread(bounds: Array) -> Array:
            """What holds for each channel, for all of its pixels."""
            column = bounds[:, None, None] if first else bounds
            return np.broadcast_to(column, shape).astype(self._dtype)

        low, high = space.low.min(sides), space.high.max(sides) * self._dtype.type(self._times)
        if grey:
            low, high = low.min(keepdims=True), high.max(keepdims=True)
        order: Any = None if image.order == "none" else image.order
        self.space = image_box(spread(low), spread(high), self._dtype, order)

    def __call__(self, images: Array) -> Array:
        out = self._resize(images)
        if self._grey:
            weights = _GREY.reshape((-1, 1, 1) if self._channel == 1 else (1, 1, -1))
            out = (out * weights).sum(self._channel, keepdims=True)
        if self._dtype != np.uint8:
            return out.astype(self._dtype, copy=False)
        out = out * np.float32(self._times) if self._times > 1 else out
        return np.rint(out).astype(np.uint8)


def _no_image(how: Preprocessing, space: Any, name: str) -> BuildError:
    asked = " and ".join(text for text in how.asked if not text.startswith("frame_stack"))
    return BuildError(
        f"environment {name!r}: {asked} is for images, which have two or three axes; its "
        f"observations are {space}: leave it out."
    )
