"""Sums and minima over many numbers that change, without going over all of them each time."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rillflow.experience.columns import at_least

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


_TOP = 4096
"""the highest level is at most so wide: NumPy goes over all of it in the time of a few calls"""


class _Tree:
    """A binary tree without its tip, in one array: node i has the children 2i and 2i + 1.

    The leaves are the last half, and the highest level has `_top` nodes, from number `_top` on.
    All methods take many indices at once; the loops in them go over the levels of the tree, never
    over the indices.
    """

    _combine: ClassVar[np.ufunc]
    _neutral: ClassVar[float]

    def __init__(self, capacity: int) -> None:
        self.capacity = at_least("capacity", capacity, 1)
        self._size = 1 << (self.capacity - 1).bit_length()
        self._top = min(self._size, _TOP)
        self._nodes: Floats = np.full(2 * self._size, self._neutral)
        self._pairs = self._nodes.reshape(-1, 2)

    def get(self, indices: ArrayLike) -> Floats:
        """The numbers at `indices`."""
        return self._nodes[self._leaves(indices)]

    def set(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Set the numbers at `indices`; where one comes twice, its last value stays."""
        at = self._leaves(indices)
        self._nodes[at] = values
        # Parents are recomputed from both children, not moved by the difference: then every node
        # is a function of the leaves alone. Rounding errors cannot pile up over many updates, and a
        # tree rebuilt from saved leaves is equal to the last bit.
        #
        # Low levels are wide and the changed nodes few, so these are gathered one by one (a shared
        # parent several times: harmless, the result is the same). High levels are narrow, and a
        # whole level in one strided pass costs less than the indices of its changed nodes.
        width = self._size >> 1
        while width >= self._top:
            if width > 4 * at.size:
                at = at >> 1
                pairs = self._pairs.take(at, axis=0)
                self._nodes[at] = self._combine(pairs[:, 0], pairs[:, 1])
            else:
                below = self._pairs[width : 2 * width]
                self._combine(below[:, 0], below[:, 1], out=self._nodes[width : 2 * width])
            width >>= 1

    def reduce(self, start: int = 0, end: int | None = None) -> float:
        """All numbers of `[start:end]` combined; the bounds mean what they mean in a slice."""
        numbers = self._nodes[self._size : self._size + self.capacity][start:end]
        return float(self._combine.reduce(numbers, initial=self._neutral))

    def _whole(self) -> float:
        return float(self._combine.reduce(self._nodes[self._top : 2 * self._top]))

    def _leaves(self, indices: ArrayLike) -> Indices:
        at = np.atleast_1d(np.asarray(indices, dtype=np.int64))
        if at.size and not (at.min() >= 0 and at.max() < self.capacity):
            span = f"{at.min()} to {at.max()}"
            raise IndexError(f"indices must be from 0 to {self.capacity - 1}, got {span}")
        return at + self._size


class SumTree(_Tree):
    """Non-negative numbers with their sum, and the index at which a running sum is reached.

    >>> tree = SumTree(4)
    >>> tree.set([2, 3], [1.0, 3.0])
    >>> tree.total, tree.reduce(0, 3), tree.find([0.5, 1.0, 4.0])
    (4.0, 1.0, array([2, 3, 3]))
    """

    _combine = np.add
    _neutral = 0.0

    @property
    def total(self) -> float:
        """The sum of all numbers."""
        return self._whole()

    def find(self, prefix: ArrayLike) -> Indices:
        """The first index whose running sum exceeds `prefix`, for each of many at once.

        Never an index whose number is zero, as long as the total is positive: a `prefix` at or
        beyond the total, which rounding can produce, gives the last index that is not zero.
        """
        rest = np.array(prefix, dtype=np.float64, ndmin=1)
        sums = np.zeros(self._top + 1)
        np.cumsum(self._nodes[self._top : 2 * self._top], out=sums[1:])
        at = np.searchsorted(sums[1:], rest, side="right")
        # Where the running sum first reaches the whole it has grown: that number is not zero.
        np.minimum(at, np.searchsorted(sums[1:], sums[-1]), out=at)
        rest -= sums[at]
        at += self._top
        width = self._top
        while width < self._size:
            pairs = self._pairs.take(at, axis=0)
            left = pairs[:, 0]
            # The second condition makes the promise above. A positive node has a positive child,
            # and from there on `rest` may be off by a rounding error: without it the walk could end
            # at a leaf of probability zero, for instance an empty slot.
            right = (rest >= left) & (pairs[:, 1] > 0)
            rest -= left * right
            at = 2 * at + right
            width <<= 1
        return at - self._size


class MinTree(_Tree):
    """Numbers with their minimum; infinite where none was set.

    >>> tree = MinTree(4)
    >>> tree.set([0, 2, 3], [1.0, 0.5, 3.0])
    >>> tree.smallest, tree.reduce(0, 2), tree.reduce(3)
    (0.5, 1.0, 3.0)
    """

    _combine = np.minimum
    _neutral = math.inf

    @property
    def smallest(self) -> float:
        """The minimum of all numbers."""
        return self._whole()
