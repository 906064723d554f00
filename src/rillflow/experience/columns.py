"""The storage of every buffer: a ring of rows, kept as one array per named column."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.errors import BuildError, RunError
from rillflow.experience.frame_ring import FrameRing
from rillflow.experience.stacked_frames import Stacks

Array = NDArray[Any]
Keys = NDArray[np.int64]


def at_least(name: str, value: int, least: int) -> int:
    """`value` as an int, or an error that names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise BuildError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise BuildError(f"{name} must be at least {least}, got {number}")
    return number


def as_rows(columns: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """The columns as arrays, stacks as they are, and the number of rows that they all have."""
    arrays: dict[str, Any] = {
        name: column if type(column) is Stacks else np.asarray(column)
        for name, column in columns.items()
    }
    if not arrays:
        raise RunError("a batch for replay needs at least one column, got none")
    for name, array in arrays.items():
        if array.ndim == 0:
            raise RunError(f"column {name!r} is a single value; its first axis must count rows")
        if array.dtype.hasobject:
            raise RunError(
                f"column {name!r} holds Python objects (dtype {array.dtype}); "
                "replay keeps numbers: give it a numeric, boolean or fixed-width dtype"
            )
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in sorted(lengths.items()))
        raise RunError(f"all columns of a batch must have the same number of rows; found {found}")
    return arrays, next(iter(lengths.values()))


def require_same(state: Mapping[str, Any], owner: object, *names: str) -> None:
    """Refuse a state that was saved under other settings, in which it means something else."""
    for name in names:
        saved, own = state.get(name), getattr(owner, name)
        if saved != own:
            raise RunError(
                f"this state was saved with {name}={saved!r}, the buffer has {name}={own!r}: "
                "build one of the same kind, with the same settings"
            )


class Columns:
    """A ring of `capacity` rows, stored as one preallocated array per column.

    A struct of arrays, so that adding a batch is one slice copy per column and drawing one is one
    gather per column, whatever the number of rows. Memory is taken at the first batch, whose names,
    dtypes and row shapes all later ones must have.

    Columns that are `Stacks` in the first batch are kept as their frames, each once; what is drawn
    are whole observations.

    A row is known by its key, the number of rows inserted before it. Keys are never used twice,
    unlike slots: whoever kept a key can find out whether its row is still there.

    >>> ring = Columns(3)
    >>> ring.add({"x": np.array([10, 11])}), ring.add({"x": np.array([12, 13])})
    (array([0, 1]), array([2, 3]))
    >>> ring.oldest, ring.take(np.array([1, 3]))["x"]
    (1, array([11, 13]))
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = at_least("capacity", capacity, 1)
        self.inserted = 0
        self._arrays: dict[str, Array] = {}
        self._kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        """what each column holds in a row"""
        self._frames: FrameRing | None = None
        """of stacked observations, of which the arrays then hold keys"""

    @property
    def resident(self) -> int:
        """Rows that are here now."""
        return min(self.inserted, self.capacity)

    @property
    def evicted(self) -> int:
        """Rows that were here and have been replaced by younger ones."""
        return self.inserted - self.resident

    @property
    def oldest(self) -> int:
        """Key of the oldest resident row: rows leave in the order in which they came."""
        return self.evicted

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, empty before the first batch."""
        return tuple(self._arrays)

    def add(self, columns: Mapping[str, Any]) -> Keys:
        """Copy the rows in, over the oldest ones, and return their keys.

        Of a batch larger than the whole ring the last `capacity` rows stay; the others count as
        inserted and evicted at once.
        """
        arrays, rows = as_rows(columns)
        if self._arrays:
            self._compare(arrays)
            arrays = self._taken_in(arrays, rows)
        else:
            arrays = self._allocate(arrays, rows)
        keys = np.arange(self.inserted, self.inserted + rows, dtype=np.int64)
        kept = min(rows, self.capacity)
        # A ring has one seam. The kept rows are one run of slots, cut at most once, so two slice
        # copies do what `ring[keys % capacity] = rows` would, without an index for every row.
        start = (self.inserted + rows - kept) % self.capacity
        before = min(kept, self.capacity - start)
        for name, array in arrays.items():
            ring, rest = self._arrays[name], array[rows - kept :]
            ring[start : start + before] = rest[:before]
            ring[: kept - before] = rest[before:]
        self.inserted += rows
        return keys

    def slots(self, keys: Keys) -> Keys:
        """Where the rows of `keys` are, or once were."""
        return keys % self.capacity

    def holds(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of `keys` have their row here: neither replaced already nor never given out."""
        return (keys >= self.oldest) & (keys < self.inserted)

    def take(self, keys: Keys, names: tuple[str, ...] | None = None) -> dict[str, Array]:
        """Copies of the rows of `keys`, which must be resident; axes of `keys` come first."""
        slots = self.slots(keys)
        taken = {
            name: self._arrays[name].take(slots, axis=0)
            for name in (self._arrays if names is None else names)
        }
        if self._frames is not None:
            taken |= {n: self._frames.stacked(taken[n]) for n in self._frames.counts if n in taken}
        return taken

    def get_state(self) -> dict[str, Any]:
        """Copies of the resident rows, oldest first, and the number inserted so far."""
        slots = self.slots(np.arange(self.oldest, self.inserted, dtype=np.int64))
        columns = {name: array.take(slots, axis=0) for name, array in self._arrays.items()}
        state = {"capacity": self.capacity, "inserted": self.inserted, "columns": columns}
        if self._frames is not None:
            state["stacks"] = self._frames.get_state(columns)
            for name in self._frames.counts:
                del columns[name]
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Become what `get_state` saw: the same rows under the same keys."""
        require_same(state, self, "capacity")
        self._arrays, self._kinds, self._frames, self.inserted = {}, {}, None, 0
        columns, stacks = dict(state["columns"]), dict(state.get("stacks") or {})
        frames = stacks.pop("frames", None)
        columns |= {name: Stacks(frames, places) for name, places in stacks.items()}
        if columns:
            resident = min(int(state["inserted"]), self.capacity)
            self.inserted = int(state["inserted"]) - resident
            self.add(columns)
            if self._frames is not None:
                self._frames.set_needed(stacks, self.inserted)

    def _allocate(self, arrays: dict[str, Any], rows: int) -> dict[str, Array]:
        stacks = {name: column for name, column in arrays.items() if type(column) is Stacks}
        if stacks:
            self._frames = FrameRing(stacks, rows, self.capacity)
        self._kinds = {name: _kind(column) for name, column in arrays.items()}
        taken = self._taken_in(arrays, rows)
        self._arrays = {
            name: np.empty((self.capacity, *array.shape[1:]), array.dtype)
            for name, array in taken.items()
        }
        return taken

    def _taken_in(self, arrays: dict[str, Any], rows: int) -> dict[str, Array]:
        """A batch as the arrays have it: of stacked observations the keys of their frames."""
        if self._frames is None:
            return {name: np.asarray(column) for name, column in arrays.items()}
        end = self.inserted + rows
        return self._frames.take_in(arrays, max(self.oldest, end - self.capacity), end)

    def _compare(self, arrays: dict[str, Any]) -> None:
        if arrays.keys() != self._arrays.keys():
            raise RunError(
                "every batch must have the columns of the first: "
                f"expected {', '.join(sorted(self._arrays))}; found {', '.join(sorted(arrays))}"
            )
        for name, column in arrays.items():
            if _kind(column) != self._kinds[name]:
                (dtype, shape), (found, row) = self._kinds[name], _kind(column)
                raise RunError(
                    "every batch must have the columns of the first: "
                    f"expected {name!r} with rows of {dtype} {shape}; found {found} {row}"
                )


def _kind(column: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return column.dtype, column.shape[1:]
