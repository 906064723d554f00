"""Observations by their running mean and standard deviation, in NumPy; free of torch.

The statistics are buffers of a network, under the names of `BUFFERS`: they travel, and are saved,
with its weights, and nobody but a learner changes them. `torch_normalizer` computes the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MEAN, VARIANCE, COUNT = BUFFERS = ("normalizer.mean", "normalizer.variance", "normalizer.count")
"""names among a network's weights; all of them are float64"""
CLIP = 10.0
"""no normalised number is further from 0"""
EPSILON = 1e-8
"""added to a variance that something is divided by"""
LEAST, MOST = 0.3, 3.0
"""of deviations: those between them stay as they are where observations are normalised loosely, and
so do means between -MOST and MOST"""


@dataclass(frozen=True)
class Moments:
    """Mean and variance of so many rows.

    >>> one, other = Moments.of(np.array([1.0, 2.0])), Moments.of(np.array([6.0]))
    >>> one.joined(other) == Moments.of(np.array([1.0, 2.0, 6.0]))
    True
    """

    mean: Any
    variance: Any
    """over the rows as they are, not an estimate for others"""
    count: float

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Self:
        """Of no rows: normalising by them changes nothing but what is far from 0."""
        return cls(np.zeros(shape), np.ones(shape), 0.0)

    @classmethod
    def of(cls, rows: Array) -> Self:
        """Of rows [N, ...]; those that are not finite do not count."""
        rows = np.asarray(rows, np.float64)
        finite = np.isfinite(rows)
        if not finite.all():
            rows = rows[finite.all(axis=tuple(range(1, rows.ndim)))]
        if not len(rows):
            return cls.none(rows.shape[1:])
        return cls(rows.mean(0), rows.var(0), float(len(rows)))

    def joined(self, other: Moments) -> Moments:
        """Of the rows of both (Chan, Golub and LeVeque 1979)."""
        if not other.count or not self.count:
            return self if not other.count else other
        count = self.count + other.count
        apart, part = other.mean - self.mean, other.count / count
        squares = self.variance * self.count + other.variance * other.count
        squares = squares + apart * apart * (self.count * part)
        return Moments(self.mean + apart * part, squares / count, count)


def of_measured(moments: Moments, measured: NDArray[np.bool_] | None) -> Moments:
    """The same, but what is not measured stays as it is: indices as zeros and a one, masks."""
    if measured is None:
        return moments
    mean, variance = np.where(measured, moments.mean, 0), np.where(measured, moments.variance, 1)
    return Moments(mean, variance, moments.count)


def seen_by(moments: Moments, loosely: bool = False) -> tuple[Array, Array]:
    """What is subtracted from observations, and what they are multiplied by then.

    Loosely, they are moved and stretched only as far as it takes to bring the mean between -MOST
    and MOST and the deviation between LEAST and MOST: numbers that are ordinary stay as they are.

    >>> middle, factor = seen_by(Moments(np.array([0.5, 900.0]), np.array([1.0, 36.0]), 9.0), True)
    >>> ((np.array([[0.5, 900.0], [1.5, 906.0]]) - middle) * factor).round(3).tolist()
    [[0.5, 3.0], [1.5, 6.0]]
    """
    deviation = np.sqrt(moments.variance + EPSILON)
    if not loosely:
        return moments.mean, 1 / deviation
    factor = np.clip(deviation, LEAST, MOST) / deviation
    return moments.mean - np.clip(moments.mean * factor, -MOST, MOST) / factor, factor


def buffer_shapes(shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the statistics of observations of this shape."""
    return {MEAN: shape, VARIANCE: shape, COUNT: ()}


def as_buffers(moments: Moments) -> dict[str, Array]:
    """Statistics under the names they have among weights."""
    values = (moments.mean, moments.variance, moments.count)
    return {n: np.array(value, np.float64) for n, value in zip(BUFFERS, values, strict=True)}


def moments_in(weights: Mapping[str, Array]) -> Moments:
    """The statistics among a network's weights."""
    mean, variance, count = (np.array(weights[name], np.float64) for name in BUFFERS)
    return Moments(mean, variance, float(count))


class Normalizer:
    """What a network in NumPy is given in place of flat observations."""

    def __init__(self, moments: Moments, loosely: bool = False) -> None:
        self._loosely = loosely
        self.set(moments)

    def set(self, moments: Moments) -> None:
        """Go by these statistics from now on."""
        self.moments = moments
        seen = seen_by(moments, self._loosely)
        self.middle, self.factor = (np.ravel(part).astype(np.float32) for part in seen)

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Flat observations [N, size], normalised; a new array. They may be the first numbers."""
        size = rows.shape[1]
        out: NDArray[np.float32] = np.asarray(rows, np.float32) - self.middle[:size]
        out *= self.factor[:size]
        return np.clip(out, np.float32(-CLIP), np.float32(CLIP), out=out)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the buffers."""
        return buffer_shapes(self.moments.mean.shape)

    def buffers(self) -> dict[str, Array]:
        """The statistics under the names they have among weights."""
        return as_buffers(self.moments)
