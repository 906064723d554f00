"""Stacked observations as their single frames: what overlaps is kept and sent once.

Of four stacked frames three were in the row before. A column of such observations is therefore kept
as all the frames there are, each once, and where those of each row are among them.

Whether a row follows from the one before is seen by comparing them, byte by byte. Nothing is taken
on trust: the ends of episodes, environments that failed, rows that only reset come out exactly as
they went in, whatever an environment does there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Places = NDArray[np.int32]


class FrameParts:
    """Frames that stacks share, of one fragment or of several, one behind the other.

    They are joined when somebody asks for all of them; whoever sends them on sends the parts.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Array]) -> None:
        self.parts = tuple(parts)
        """each [number, *frame]"""

    def __reduce__(self) -> Any:
        return FrameParts, (self.parts,)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def joined(self) -> Array:
        """All of them, [number, *frame]."""
        parts = self.parts
        if len(parts) > 1:
            self.parts = parts = (np.concatenate(parts),)
        return parts[0]


class Stacks:
    """A column of stacked observations: frames, and where those of each row are among them.

    >>> frames = np.arange(5, dtype=np.uint8)[:, None, None, None]
    >>> column = Stacks(frames, np.array([[0, 1], [1, 2], [2, 3]], np.int32))
    >>> column.shape, np.asarray(column)[1].ravel().tolist()
    ((3, 2, 1, 1), [1, 2])
    """

    __slots__ = ("places", "pool")

    def __init__(self, frames: Array | FrameParts, places: Array) -> None:
        self.pool = frames if isinstance(frames, FrameParts) else FrameParts((frames,))
        """other columns may share it"""
        self.places = places
        """[..., frames in one observation], the oldest first"""

    def __reduce__(self) -> Any:
        return Stacks, (self.pool, self.places)

    @staticmethod
    def of(rows: Array, count: int) -> Stacks:
        """Observations [N, ...] of so many frames each, none of which is shared."""
        frames = pieces(rows, count).reshape(-1, *_frame(rows.shape[1:], count))
        return Stacks(frames, np.arange(len(frames), dtype=np.int32).reshape(len(rows), count))

    @property
    def frames(self) -> Array:
        """All there are, [number, *frame]."""
        return self.pool.joined

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Of one frame."""
        return self.pool.parts[0].shape[1:]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the observations."""
        return self.pool.parts[0].dtype

    @property
    def count(self) -> int:
        """Frames in one observation."""
        return int(self.places.shape[-1])

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Of one observation."""
        first, *rest = self.frame_shape
        return (first * self.count, *rest)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the column."""
        return (*self.places.shape[:-1], *self.row_shape)

    @property
    def ndim(self) -> int:
        """Axes of the column."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.places)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = self.whole()
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def whole(self) -> Array:
        """The observations, in an array of their own."""
        return self.frames.take(self.places, 0).reshape(self.shape)

    def at(self, places: Array) -> Stacks:
        """Another column over the same frames."""
        return Stacks(self.pool, places)

    def alike(self, other: object) -> bool:
        """Whether both are stacks of as many frames of the same kind."""
        return (
            isinstance(other, Stacks)
            and other.count == self.count
            and other.dtype == self.dtype
            and other.frame_shape == self.frame_shape
        )


def pieces(stacks: Array, count: int) -> Array:
    """The frames [N, count, *frame] of observations [N, ...]."""
    return stacks.reshape(len(stacks), count, *_frame(stacks.shape[1:], count))


def _frame(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (shape[0] // count, *shape[1:])


class FramePool:
    """The frames of one fragment, written as its observations come.

    >>> pool = FramePool(count=2, rows=4)
    >>> first = pool.add(np.array([[[[1]], [[2]]]], np.uint8))
    >>> pool.add(np.array([[[[2]], [[3]]]], np.uint8)).tolist()  # two of its frames, one is new
    [[0, 2]]

    Args:
        count: frames in one observation.
        rows: about how many times observations are added.
    """

    def __init__(self, count: int, rows: int) -> None:
        self.count = count
        self._rows = rows
        self._frames: Array = np.empty(0)
        self._used = 0
        self._last: tuple[Array, Places] | None = None
        """what was added last, which most of the next rows overlap with, and where that is"""

    def add(self, stacks: Array, *, goes_on: bool = True) -> Places:
        """Where the frames of observations [B, ...] are now, [B, count].

        Args:
            stacks: not written to by anybody before the next ones are added.
            goes_on: whether the next observations overlap with these, and not with earlier ones.
        """
        count, lanes = self.count, len(stacks)
        stacks = np.ascontiguousarray(stacks)
        frames = pieces(stacks, count)
        places = np.empty((lanes, count), np.int32)
        places[:, -1] = self._put(frames[:, -1])
        anew: Array = np.arange(lanes)
        if self._last is not None:
            before, at = self._last
            places[:, :-1] = at[:, 1:]
            anew = np.flatnonzero(differing(frames[:, :-1], pieces(before, count)[:, 1:]))
        if len(anew):
            older = frames[anew, :-1]
            put = self._put(older.reshape(-1, *older.shape[2:]))
            places[anew, :-1] = put.reshape(len(anew), count - 1)
        if goes_on:
            self._last = stacks, places
        return places

    def add_some(self, stacks: Array, lanes: Array) -> Places:
        """As `add`, for some of the environments, of what ends there: nothing goes on from it."""
        last = self._last
        if last is not None:
            self._last = last[0][lanes], last[1][lanes]
        places = self.add(stacks, goes_on=False)
        self._last = last
        return places

    def _put(self, frames: Array) -> Places:
        begin, end = self._used, self._used + len(frames)
        if end > len(self._frames):
            room = max(end, (self._rows + self.count) * len(frames), 2 * begin)
            grown = np.empty((room, *frames.shape[1:]), frames.dtype)
            if begin:
                grown[:begin] = self._frames[:begin]
            self._frames = grown
        self._frames[begin:end] = frames
        self._used = end
        return np.arange(begin, end, dtype=np.int32)

    def column(self, places: Array) -> Stacks:
        """A column of what was added, over the frames there are now."""
        # some of them empty, so that the numbers of frames that travel are not all different ones
        step = 1 << max(0, self._used.bit_length() - 5)
        end = min(len(self._frames), -(-self._used // step) * step)
        self._frames[self._used : end] = 0
        return Stacks(self._frames[:end], places)


def differing(one: Array, other: Array) -> Array:
    """Which rows of two arrays [N, ...] differ in a byte."""
    lanes = len(one)
    if not lanes:
        return np.zeros(0, np.bool_)
    differ: Array = (
        one.view(np.uint8).reshape(lanes, -1) != other.view(np.uint8).reshape(lanes, -1)
    ).any(axis=1)
    return differ


def whole(column: Any) -> Array:
    """A column as an array."""
    found: Array = column.whole() if isinstance(column, Stacks) else column
    return found


def over_shared_frames(columns: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The columns, and the names of the stacks among them, which all share their frames.

    Stacks over other frames, as in a column that somebody has put in, are arrays then.
    """
    names = tuple([name for name, column in columns.items() if type(column) is Stacks])
    if not names:
        return dict(columns), ()
    pool = columns[names[0]].pool
    alone = {name: columns[name].whole() for name in names if columns[name].pool is not pool}
    return {**columns, **alone}, tuple([name for name in names if name not in alone])


def over_one_pool(
    batches: Sequence[dict[str, Any]],
) -> tuple[Sequence[dict[str, Array]], FrameParts, tuple[str, ...]]:
    """Columns of several batches as arrays that can be joined; all their frames; which are stacks.

    Stacks are places among all frames. A column that is one in some batches only is an array.
    """
    if not any(type(column) is Stacks for one in batches for column in one.values()):
        return batches, FrameParts(()), ()
    shared = [over_shared_frames(columns) for columns in batches]
    common = set(shared[0][1]).intersection(*[names for _, names in shared[1:]])
    first = shared[0][0]
    if not all(part[name].alike(first[name]) for part, _ in shared[1:] for name in common):
        common = set()
    stacked = tuple([name for name in first if name in common])
    parts: list[dict[str, Array]] = []
    pools: list[Array] = []
    begin = 0
    for part, _ in shared:
        arrays = {name: whole(column) for name, column in part.items() if name not in common}
        places = {name: part[name].places + np.int32(begin) for name in stacked}
        parts.append(arrays | places)
        if stacked:
            pools += part[stacked[0]].pool.parts
            begin += len(part[stacked[0]].pool)
    return parts, FrameParts(pools), stacked
