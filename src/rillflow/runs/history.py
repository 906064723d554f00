"""The rows of a run in memory: all of a short run, fewer and fewer of a long one."""

from __future__ import annotations

Row = dict[str, float]

MOST = 2000
"""rows that are kept: what they take, in memory and in a saved policy, no longer grows then"""


class History:
    """Rows in their order: each at first, every second, fourth, ... of a long run, and the newest.

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
        self._most = most
        self._every = 1
        self._kept: list[Row] = []

    def append(self, row: Row) -> None:
        """One more."""
        if self.count % self._every == 0:
            self._kept.append(row)
        if len(self._kept) > self._most:
            del self._kept[1::2]
            self._every *= 2
        self.newest = row
        self.count += 1

    def rows(self) -> list[Row]:
        """Those that are kept, and the newest."""
        missing = self.newest is not None and self._kept[-1] is not self.newest
        return [*self._kept, *([self.newest] if missing and self.newest else [])]
