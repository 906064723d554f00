"""Spaces of images that know where their channels are."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box


class ImageBox(Box):
    """A Box of images whose channels are first or last, whatever its shape looks like."""

    def __init__(self, low: Any, high: Any, dtype: Any, channels: Literal["first", "last"]) -> None:
        super().__init__(low, high, dtype=dtype)
        self.channels = channels


def image_box(
    low: npt.NDArray[Any],
    high: npt.NDArray[Any],
    dtype: Any,
    channels: Literal["first", "last"] | None,
) -> Box:
    """A Box between bounds; of images, one that says where their channels are."""
    kind = np.dtype(dtype).type
    if channels is None or low.ndim != 3:
        return Box(low, high, dtype=kind)
    return ImageBox(low, high, kind, channels)
