"""Images in another size, or in grey; alone, or as parts of an observation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.envs.image_box import image_box
from rillflow.envs.layout import Layout, Part, rebuilt
from rillflow.envs.resizing import Resized
from rillflow.envs.spaces import Array, Observations
from rillflow.images import Image

if TYPE_CHECKING:
    from gymnasium.spaces import Box

_GREY = np.array((0.299, 0.587, 0.114), np.float32)
"""how bright red, green and blue are (Recommendation ITU-R BT.601)"""


class ImageChange:
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
        """A batch of them."""
        out = self._resize(images)
        if self._grey:
            weights = _GREY.reshape((-1, 1, 1) if self._channel == 1 else (1, 1, -1))
            out = (out * weights).sum(self._channel, keepdims=True)
        if self._dtype != np.uint8:
            return out.astype(self._dtype, copy=False)
        out = out * np.float32(self._times) if self._times > 1 else out
        return np.rint(out).astype(np.uint8)


def with_parts_changed(
    seen: Observations, layout: Layout, changes: dict[tuple[Any, ...], ImageChange]
) -> Observations:
    """Observations of several parts of which some, by their paths, are changed."""

    def part_at(path: tuple[Any, ...]) -> Part:
        space = changes[path].space if path in changes else None
        return layout.parts[path] if space is None else Part("image", space, space)

    after = replace(layout, tree=rebuilt(layout.tree, part_at))

    def encode(raw: Any, *masks: Array) -> Array:
        whole = seen.encode(raw, *masks)
        pieces = layout.pieces(whole)
        pieces |= {path: change(pieces[path]) for path, change in changes.items()}
        return after.join(pieces, layout.mask(whole), len(whole))

    return Observations(after.space, encode)
