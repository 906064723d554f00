"""Uniform replay: the newest rows, each equally likely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.errors import RunError
from rillflow.experience.columns import Array, Columns, Keys, at_least


@dataclass(frozen=True)
class ReplaySample:
    """Rows drawn from a buffer: copies, free to be changed."""

    columns: dict[str, Array]
    """the rows, by column"""
    keys: Keys
    """the key of each row: what to send back with its new priority"""
    weights: NDArray[np.float32] | None = None
    """importance weights in (0, 1], where rows were not drawn uniformly"""


class ReplayBuffer:
    """The last `capacity` rows, drawn uniformly and with replacement.

    It keeps its own account, which always balances: `inserted == resident + evicted`.

    >>> buffer = ReplayBuffer(100)
    >>> keys = buffer.add({"obs": np.zeros((120, 4)), "rewards": np.arange(120.0)})
    >>> buffer.inserted, buffer.resident, buffer.evicted
    (120, 100, 20)
    >>> buffer.sample(32).columns["obs"].shape
    (32, 4)
    """

    def __init__(self, capacity: int, *, seed: int = 0) -> None:
        self._columns = Columns(capacity)
        self._rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return self._columns.resident

    @property
    def capacity(self) -> int:
        """Rows that fit."""
        return self._columns.capacity

    @property
    def inserted(self) -> int:
        """Rows ever added."""
        return self._columns.inserted

    @property
    def resident(self) -> int:
        """Rows that are here now."""
        return self._columns.resident

    @property
    def evicted(self) -> int:
        """Rows that were replaced by younger ones."""
        return self._columns.evicted

    def add(self, columns: Mapping[str, Any]) -> Keys:
        """Copy rows in, the oldest making room, and return the key of each."""
        return self._columns.add(columns)

    def sample(self, n: int) -> ReplaySample:
        """`n` rows, drawn uniformly and with replacement."""
        n = self._drawable(n)
        keys = self._rng.integers(self._columns.oldest, self.inserted, n)
        return ReplaySample(self._columns.take(keys), keys)

    def get_state(self) -> dict[str, Any]:
        """All that is needed to go on exactly as this buffer would: arrays, numbers, names.

        The state of the random generator, under `rng`, is a dictionary that JSON can hold.
        """
        return {**self._columns.get_state(), "rng": self._rng.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on as the buffer that `state` was taken from."""
        self._columns.set_state(state)
        self._rng.bit_generator.state = state["rng"]

    def _drawable(self, n: int) -> int:
        if not len(self):
            raise RunError("cannot sample from an empty replay buffer: add rows first")
        return at_least("the number of rows to sample", n, 1)
