"""The rows of a run in memory: all of a short run, fewer and fewer of a long one."""

from __future__ import annotations

Row = dict[str, float]

MOST = 2000
"""rows that are kept: what they take, in memory and in a saved policy, no longer grows then"""


class History:
    """Rows in their order: each at first, every second, fourth, ... of a long run, and the newest.

    Rows with an evaluation are thinned out by themselves: they are few among many.

    >>> history = History(most=4)
    >>> for number in range(12):
    ...     history.append({"steps": number})
    >>> [row["steps"] for row in history.rows()], history.count
    ([0, 4, 8, 11], 12)
    """

    def __init__(self, most: int = MOST) -> None:
        self.count = 0
        """of all rows so far"""
        self.newest: Row | None = None
        self._plain, self._evaluated = _Thinned(most), _Thinned(most)

    def append(self, row: Row) -> None:
        """One more."""
        kept = self._evaluated if "eval_return" in row else self._plain
        kept.append(self.count, row)
        self.newest = row
        self.count += 1

    def rows(self) -> list[Row]:
        """Those that are kept, and the newest."""
        kept = sorted([*self._plain.kept, *self._evaluated.kept], key=lambda pair: pair[0])
        rows = [row for _, row in kept]
        missing = self.newest is not None and rows[-1] is not self.newest
        return [*rows, *([self.newest] if missing and self.newest else [])]


class _Thinned:
    """Rows with their numbers, every n-th of them when there are too many."""

    def __init__(self, most: int) -> None:
        self.kept: list[tuple[int, Row]] = []
        self._most, self._every, self._count = most, 1, 0

    def append(self, number: int, row: Row) -> None:
        if self._count % self._every == 0:
            self.kept.append((number, row))
        if len(self.kept) > self._most:
            del self.kept[1::2]
            self._every *= 2
        self._count += 1
