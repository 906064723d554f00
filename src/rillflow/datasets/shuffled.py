"""Rows of a dataset in random order, pass after pass, through a window of bounded size.

What fits is read once. Of anything larger a pass reads one window after the other, each of pieces
from all over the dataset, and mixes the rows inside it: the order of the pieces is random, too.

All that is random follows from the seed, the number of the pass and that of the window, so three
numbers are the whole state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rillflow.errors import RunError
from rillflow.experience.batch import Array

Piece = tuple[int, int, int]
"""an episode, the first of its steps, and the step behind the last"""
_IN_A_WINDOW = 16
"""pieces at least, so that rows of one episode stand among others"""


def pieces_of(lengths: Array, shard: int, shards: int, most: int) -> list[Piece]:
    """The pieces of one of several shards, which share the episodes about evenly.

    >>> pieces_of(np.array([3, 10, 4]), 0, 2, 6)
    [(1, 0, 6), (1, 6, 10)]
    >>> pieces_of(np.array([3, 10, 4]), 1, 2, 6)
    [(0, 0, 3), (2, 0, 4)]
    """
    rows = np.zeros(shards, np.int64)
    own = []
    for episode in np.argsort(-lengths, kind="stable"):  # the longest first, to who has least
        to = int(rows.argmin())
        rows[to] += lengths[episode]
        if to == shard:
            own.append(int(episode))
    return [
        (episode, begin, min(begin + most, int(lengths[episode])))
        for episode in sorted(own)
        for begin in range(0, int(lengths[episode]), most)
    ]


class ShuffledRows:
    """Gives rows of some pieces, without end.

    Args:
        read: gives the rows of a piece.
        lengths: of the episodes.
        window: rows that are in memory at once.
        seed: of the order.
        shard: which of `shards` parts of the episodes.
        shards: how many there are.
    """

    def __init__(
        self,
        read: Callable[[int, int, int], Mapping[str, Array]],
        lengths: Array,
        window: int,
        seed: int,
        shard: int = 0,
        shards: int = 1,
    ) -> None:
        self._read, self._seed = read, seed
        most = max(1, window // _IN_A_WINDOW)
        self._fingerprint = [len(lengths), int(lengths.sum()), window, shard, shards]
        self.pieces = pieces_of(lengths, shard, shards, most)
        self.rows = sum(end - begin for _, begin, end in self.pieces)
        self._whole = self.rows <= window
        self._window = window
        self._epoch = self._number = self._at = 0
        self._windows: list[Sequence[Piece]] = []
        self._of: tuple[int, int] | None = None
        """the pass and the window that are loaded"""
        self._columns: dict[str, Array] = {}
        self._order: Array = np.empty(0, np.int64)

    def take(self, count: int) -> dict[str, Array]:
        """The next so many rows."""
        parts = []
        while count:
            self._load()
            chosen = self._order[self._at : self._at + count]
            parts.append({name: column[chosen] for name, column in self._columns.items()})
            self._at += len(chosen)
            count -= len(chosen)
            if self._at == len(self._order):
                self._next_window()
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _next_window(self) -> None:
        self._number, self._at = self._number + 1, 0
        if self._number == len(self._windows):
            self._epoch, self._number = self._epoch + 1, 0

    def _load(self) -> None:
        """Have the rows of the window that is next, if they are not there."""
        if self._of == (self._epoch, self._number):
            return
        if self._of is None or self._of[0] != self._epoch:
            self._windows = self._parted()
        if not (self._whole and self._columns):
            self._columns = {}  # the old window goes before the new one comes
            self._fill(self._windows[self._number])
        rng = np.random.default_rng([self._seed, self._epoch, self._number + 1])
        self._order = rng.permutation(len(next(iter(self._columns.values()))))
        self._of = self._epoch, self._number

    def _parted(self) -> list[Sequence[Piece]]:
        """The windows of a pass, each with its pieces."""
        if self._whole:
            return [self.pieces]
        order = np.random.default_rng([self._seed, self._epoch, 0]).permutation(len(self.pieces))
        windows: list[list[Piece]] = [[]]
        rows = 0
        for piece in (self.pieces[index] for index in order):
            count = piece[2] - piece[1]
            if rows + count > self._window:
                windows.append([])
                rows = 0
            windows[-1].append(piece)
            rows += count
        return [window for window in windows if window]

    def _fill(self, pieces: Sequence[Piece]) -> None:
        total = sum(end - begin for _, begin, end in pieces)
        at = 0
        for piece in pieces:
            rows = self._read(*piece)
            if not self._columns:
                self._columns = {
                    name: np.empty((total, *column.shape[1:]), column.dtype)
                    for name, column in rows.items()
                }
            count = piece[2] - piece[1]
            for name, column in rows.items():
                self._columns[name][at : at + count] = column
            at += count

    def get_state(self) -> dict[str, Any]:
        """Where it is, and in what."""
        where = {"epoch": self._epoch, "window": self._number, "at": self._at}
        return {**where, "seed": self._seed, "of": list(self._fingerprint)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        if list(state["of"]) != self._fingerprint:
            names = "episodes, steps, rows in memory, shard, shards"
            raise RunError(
                f"the dataset, or how it is read, is not what it was ({names}): it was "
                f"{list(state['of'])} and is {self._fingerprint}. Go on with the same data, the "
                "same data_memory and as many workers, or begin a new run."
            )
        self._seed = state["seed"]
        self._epoch, self._number, self._at = state["epoch"], state["window"], state["at"]
        self._of, self._columns = None, {}
