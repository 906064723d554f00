"""How pixels become numbers of about one: by the bounds of their space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.images import Image

FAR = 1e6
"""bounds beyond it stand for none"""


@dataclass(frozen=True)
class PixelScale:
    """What pixels are divided by, or, channel by channel, moved and multiplied."""

    white: float | None
    """what stands for 1, as 0 does for 0; None: `low` and `factor` say more"""
    low: NDArray[np.float32]
    """what is subtracted, for each channel"""
    factor: NDArray[np.float32]
    """what the rest is multiplied by, for each channel"""


def pixel_scale(space: Any, image: Image) -> PixelScale:
    """How the pixels of a space are scaled: from 0 to 1, between their bounds.

    Whole pixels (uint8, bool) are divided by the largest there is; floats are scaled channel by
    channel, and stay as they are in channels without bounds.

    >>> from gymnasium.spaces import Box
    >>> def factor(space):
    ...     return pixel_scale(space, Image(8, 8, 2, "last")).factor.tolist()
    >>> factor(Box(0, 4, (8, 8, 2))), factor(Box(-np.inf, np.inf, (8, 8, 2)))
    ([0.25, 0.25], [1.0, 1.0])
    """
    if space.dtype in (np.uint8, np.bool_):
        white = max(1.0, float(space.high.max()))
        zeros = np.zeros(image.channels, np.float32)
        return PixelScale(white, zeros, np.full(image.channels, 1 / white, np.float32))
    pixels = {"first": (1, 2), "last": (0, 1), "none": None}[image.order]
    least = np.atleast_1d(space.low.min(pixels)).astype(np.float64)
    most = np.atleast_1d(space.high.max(pixels)).astype(np.float64)
    bounded = (np.abs(least) < FAR) & (np.abs(most) < FAR) & (least < most)
    dark = np.where(bounded, least, 0.0)
    bright = np.where(bounded, most, 1.0)
    factor = (1 / (bright - dark)).astype(np.float32)
    plain = not dark.any() and (factor == 1).all()
    return PixelScale(1.0 if plain else None, dark.astype(np.float32), factor)
