"""Frames of stacked observations in replay, each once, for as long as a row needs it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.experience.stacked_frames import Stacks

Array = NDArray[Any]
Keys = NDArray[np.int64]

_SPARE = 1.1
"""times the frames that as many rows as fit need, if all batches are like the first"""
_BLOCK = 1024
"""frames that are moved at a time"""
_PARTS = 100
"""in so many parts the frames of a saved state leave with their rows"""


class FrameRing:
    """The frames that the rows of a replay buffer are made of.

    Rows leave in the order in which they came, and so do their frames: as soon as the last row of
    their batch has left. How many frames that is depends on how often episodes begin, so there is
    more room if it is needed; memory is taken as it is filled.

    Args:
        stacks: the columns of the first batch, by name.
        rows: in the first batch.
        capacity: rows that the buffer keeps.
    """

    def __init__(self, stacks: Mapping[str, Stacks], rows: int, capacity: int) -> None:
        first = next(iter(stacks.values()))
        self.counts = {name: column.count for name, column in stacks.items()}
        """stacked columns, and the frames in one observation of each"""
        self.inserted = 0
        """frames that were ever added: the key of the next one"""
        each = len(first.pool) / max(1, rows)
        room = max(len(first.pool), int(capacity * each * _SPARE))
        if 4 * rows <= capacity:  # it is one batch of many, and not a whole saved state
            room += 2 * len(first.pool)
        self._frames = np.empty((room, *first.frame_shape), first.dtype)
        self._needed: deque[tuple[int, int]] = deque()
        """rows below this key need no frame before that one; the oldest first"""

    @property
    def nbytes(self) -> int:
        """Of all the room there is, filled or not."""
        return int(self._frames.nbytes)

    @property
    def oldest(self) -> int:
        """The key of the oldest frame that some row needs."""
        return self._needed[0][1] if self._needed else self.inserted

    def take_in(self, columns: Mapping[str, Any], oldest: int, end: int) -> dict[str, Any]:
        """A batch whose stacked columns are keys of frames, which are here from now on.

        Args:
            columns: of the batch.
            oldest: the key of the oldest row that stays.
            end: the key after its last row.
        """
        while self._needed and self._needed[0][0] <= oldest:
            self._needed.popleft()
        begin, firsts = self.inserted, dict[int, int]()
        taken = dict(columns)
        for name, count in self.counts.items():
            column = columns[name]
            stacks = column if type(column) is Stacks else Stacks.of(np.asarray(column), count)
            if id(stacks.pool) not in firsts:
                firsts[id(stacks.pool)] = self._add(stacks.frames, min(self.oldest, begin))
            taken[name] = stacks.places.astype(np.int64) + firsts[id(stacks.pool)]
        self._needed.append((end, begin))
        return taken

    def _add(self, frames: Array, oldest: int) -> int:
        first, end = self.inserted, self.inserted + len(frames)
        if end - oldest > len(self._frames):
            self._grow(oldest, max(end - oldest, len(self._frames) + len(self._frames) // 4))
        room = len(self._frames)
        start = first % room
        before = min(len(frames), room - start)
        self._frames[start : start + before] = frames[:before]
        self._frames[: len(frames) - before] = frames[before:]
        self.inserted = end
        return first

    def _grow(self, oldest: int, room: int) -> None:
        larger = np.empty((room, *self._frames.shape[1:]), self._frames.dtype)
        for begin in range(oldest, self.inserted, _BLOCK):
            keys = np.arange(begin, min(begin + _BLOCK, self.inserted))
            larger[keys % room] = self._frames[keys % len(self._frames)]
        self._frames = larger

    def stacked(self, keys: Keys) -> Array:
        """Observations [..., *shape] of the keys [..., count] of their frames."""
        return Stacks(self._frames, keys % len(self._frames)).whole()

    def get_state(self, columns: Mapping[str, Array]) -> dict[str, Any]:
        """The frames of the rows there are, and where those of each stacked column are in them."""
        oldest = self.oldest
        keys = np.arange(oldest, self.inserted)
        frames = self._frames.take(keys % len(self._frames), 0)
        return {"frames": frames, **{name: columns[name] - oldest for name in self.counts}}

    def set_needed(self, columns: Mapping[str, Array], end: int) -> None:
        """Let frames of a restored state leave with their rows, not all with the last one."""
        least = np.min([columns[name].min(1) for name in self.counts], axis=0)
        first = np.minimum.accumulate(least[::-1])[::-1]  # that this row or a later one needs
        begin, together = end - len(first), max(1, len(first) // _PARTS)
        self._needed = deque(
            (min(end, begin + at + together), int(first[at]))
            for at in range(0, len(first), together)
        )
