"""Images in another size, or in grey; alone, or as parts of an observation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.envs.encoded_box import EncodedBox
from rillflow.envs.layout import Layout, Part, rebuilt
from rillflow.envs.resizing import Resized
from rillflow.envs.spaces import Array, Observations, lone
from rillflow.images import Channels, Image, as_image

if TYPE_CHECKING:
    from gymnasium.spaces import Box, Space

_GREY = np.array((0.299, 0.587, 0.114), np.float32)
"""how bright red, green and blue are (Recommendation ITU-R BT.601)"""


class ImageChange:
    """Images to images of another size or in grey.

    Args:
        space: of the images.
        image: how they are read.
        size: the height and the width they get.
        grey: whether three colours become one.
        raw: what the environment itself says of them.
    """

    def __init__(
        self, space: Box, image: Image, size: tuple[int, int], grey: bool, raw: Space[Any]
    ) -> None:
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
        self.space: Box = EncodedBox(
            spread(low), spread(high), self._dtype, raw=raw, channels=order
        )

    def __call__(self, images: Array) -> Array:
        """A batch of them."""
        out = self._resize(images)
        if self._grey:
            weights = _GREY.reshape((-1, 1, 1) if self._channel == 1 else (1, 1, -1))
            out = (out * weights).sum(self._channel, keepdims=True)
        if self._dtype != np.uint8:
            return out.astype(self._dtype, copy=False)
        out = out * np.float32(self._times) if self._times > 1 else out
        return np.rint(out).astype(np.uint8)


def change_between(raw: Space[Any], seen: Space[Any]) -> ImageChange | None:
    """What makes images of the size and colours that a policy sees of those that an environment
    shows, encoded; None: nothing has to, or what it shows is no image."""
    before = lone(raw, "").space
    shape, wanted = tuple(before.shape), tuple(seen.shape or ())
    if shape == wanted or len(shape) != len(wanted) or len(shape) not in (2, 3):
        return None
    order: Channels = getattr(seen, "channels", "auto")
    image, after = as_image(shape, order), as_image(wanted, order)
    assert image is not None
    assert after is not None
    return ImageChange(before, image, after.sides, image.channels != after.channels, raw)


def with_parts_changed(
    seen: Observations, layout: Layout, changes: dict[tuple[Any, ...], ImageChange]
) -> Observations:
    """Observations of several parts of which some, by their paths, are changed."""

    def part_at(path: tuple[Any, ...]) -> Part:
        space = changes[path].space if path in changes else None
        before = layout.parts[path]
        return before if space is None else Part("image", space, before.raw)

    after = replace(layout, tree=rebuilt(layout.tree, part_at))

    def encode(raw: Any, *masks: Array) -> Array:
        whole = seen.encode(raw, *masks)
        pieces = layout.pieces(whole)
        pieces |= {path: change(pieces[path]) for path, change in changes.items()}
        return after.join(pieces, layout.mask(whole), len(whole))

    return Observations(after.space, encode)
