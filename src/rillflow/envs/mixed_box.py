"""The space of actions in which choices and continuous numbers stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box


class MixedBox(Box):
    """Flat actions of a policy: first the indices of choices, then continuous numbers.

    An index is a whole number from 0, as a float32. To whoever carries actions it is a Box.

    >>> MixedBox([3, 2], [-1.0], [1.0])
    MixedBox(choices=(3, 2), numbers=1)
    """

    def __init__(self, choices: Sequence[int], low: npt.ArrayLike, high: npt.ArrayLike) -> None:
        self.choices = tuple(int(n) for n in choices)
        """how many there are in each part that chooses"""
        last = np.array(self.choices) - 1
        below = np.concatenate([np.zeros_like(last), np.ravel(low)]).astype(np.float32)
        above = np.concatenate([last, np.ravel(high)]).astype(np.float32)
        super().__init__(below, above, dtype=np.float32)

    @property
    def numbers(self) -> int:
        """How many numbers follow the choices."""
        return int(self.low.size) - len(self.choices)

    @property
    def bounds(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Of the numbers."""
        count = len(self.choices)
        return self.low[count:], self.high[count:]

    def sample(self, mask: Any = None, probability: Any = None) -> npt.NDArray[Any]:
        """One action: each choice alike, and numbers as a Box has them."""
        drawn: npt.NDArray[Any] = super().sample(mask, probability)
        drawn[: len(self.choices)] = self.np_random.integers(0, self.choices)
        return drawn

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MixedBox) and self.choices == other.choices and super().__eq__(other)
        )

    __hash__ = None  # type: ignore[assignment]  # as that of a Box

    def __repr__(self) -> str:
        return f"MixedBox(choices={self.choices}, numbers={self.numbers})"
