"""How many rows of a run are told: all at first, then a few a second, however fast it is."""

from __future__ import annotations

from collections.abc import Mapping

A_SECOND = 4.0
"""rows that are told on the long run"""
AT_FIRST = 200
"""rows that are told however fast they come: the curve of a run of a second is whole"""

Row = Mapping[str, float]


class FewRows:
    """Lets rows pass; those with an evaluation always.

    >>> few = FewRows()
    >>> told = [few.passes({"seconds": number / 1000}) for number in range(10_000)]
    >>> sum(told)
    239
    """

    def __init__(self) -> None:
        self.left: Row | None = None
        """the newest row, if it was left out"""
        self._may = float(AT_FIRST)
        self._seconds = 0.0

    def passes(self, row: Row) -> bool:
        """Whether this row is told; the seconds are those of the run."""
        self._may += max(0.0, row["seconds"] - self._seconds) * A_SECOND
        self._may, self._seconds = min(self._may, float(AT_FIRST)), row["seconds"]
        told = self._may >= 1.0 or "eval_return" in row
        if told:
            self._may = max(0.0, self._may - 1.0)
        self.left = None if told else row
        return told
