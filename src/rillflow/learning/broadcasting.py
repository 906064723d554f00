"""Shapes of gradients: what went in by broadcasting goes out by a sum.

A gradient may be one number for all entries of its array; it stays one as long as it can.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def shape_of(x: Any) -> tuple[int, ...]:
    """As `np.shape`, which takes ten times as long for one number."""
    return x.shape if isinstance(x, np.ndarray) else ()


def spread(gradient: Any, out: Any, value: Any) -> Any:
    """A gradient in the shape of `out`; one number stays one where `value` has that shape, too."""
    if not isinstance(out, np.ndarray):
        return gradient
    if isinstance(gradient, np.ndarray):
        return gradient if gradient.shape == out.shape else np.broadcast_to(gradient, out.shape)
    same = isinstance(value, np.ndarray) and value.shape == out.shape
    return gradient if same else np.broadcast_to(np.float32(gradient), out.shape)


def along(gradient: Any, dim: int | None, like: Any) -> Any:
    """The gradient of a sum, in the shape of what was summed up; one number stays one."""
    if dim is None or not isinstance(gradient, np.ndarray):
        return gradient
    return np.broadcast_to(np.expand_dims(gradient, dim), like.shape)


def summed_to(gradient: Array, shape: tuple[int, ...]) -> Any:
    """The inverse of broadcasting an array of this shape."""
    extra = gradient.ndim - len(shape)
    if extra:
        gradient = np.add.reduce(gradient, tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and gradient.shape[i] != 1)
    return np.add.reduce(gradient, axes, keepdims=True) if axes else gradient
