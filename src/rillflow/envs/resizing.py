"""Images of another size: averaged where they shrink, interpolated where they grow.

Whole batches at once, in NumPy, one side after the other. A new pixel of a side is a weighted sum
of a few of the old ones, so a batch is gone through as many times as there are such neighbours:
several times faster than a product with a matrix of weights, which are mostly zeros.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Taps(NamedTuple):
    """For each new pixel of a side the old ones it is made of, [neighbours, pixels]."""

    places: npt.NDArray[np.intp]
    weights: npt.NDArray[np.float32]


def taps(old: int, new: int) -> Taps:
    """The old pixels that each new one is made of.

    Shrinking averages the area that a new pixel covers; growing is linear between the middles of
    the two nearest old ones.

    >>> taps(4, 2).places.tolist(), taps(4, 2).weights.tolist()
    ([[0, 2], [1, 3]], [[0.5, 0.5], [0.5, 0.5]])
    """
    scale, pixels = old / new, np.arange(new)
    if new < old:
        begin, end = pixels * scale, (pixels + 1) * scale
        count = int((np.ceil(end - 1e-9) - np.floor(begin + 1e-9)).max())
        first = np.minimum(np.floor(begin + 1e-9).astype(int), old - count)
        places = first + np.arange(count)[:, None]
        weights = np.minimum(places + 1, end) - np.maximum(places, begin)
        weights = np.maximum(weights, 0) / scale
    else:
        middle = (pixels + 0.5) * scale - 0.5
        first = np.floor(middle).astype(int)
        places = np.clip(first + np.arange(2)[:, None], 0, old - 1)
        weights = np.stack([1 - (middle - first), middle - first])
    return Taps(places.astype(np.intp), weights.astype(np.float32))


def along(images: Array, axis: int, how: Taps) -> npt.NDArray[np.float32]:
    """Images with one axis of another length, in float32."""
    shape = [1] * images.ndim
    shape[axis] = -1
    out: Any = None
    for places, weights in zip(*how, strict=True):
        part = images.take(places, axis) * weights.reshape(shape)
        out = part if out is None else np.add(out, part, out)
    return out  # type: ignore[no-any-return]


class Resized:
    """Batches of images in another size."""

    def __init__(self, old: tuple[int, int], new: tuple[int, int], first: int) -> None:
        """`first` is the axis of the height, in a batch; that of the width follows it."""
        self._steps = [
            (first + axis, taps(old[axis], new[axis])) for axis in (0, 1) if old[axis] != new[axis]
        ]

    def __call__(self, images: Array) -> Array:
        """As float32 where anything is done."""
        for axis, how in self._steps:
            images = along(images, axis, how)
        return images
