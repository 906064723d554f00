"""How long a run will still take: from its limits, or from the trend of its return."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

_KEPT = 400
_FEW = 100
"""episodes of which a return is not yet the mean that it will be"""
_SEEN = 1.0
"""seconds that results have to cover before a rate says how it goes on: the first of them have
waited for processes and for what is imported"""
_FARTHEST = 30.0
"""times what was seen of a trend; a guess that is farther away says only that nobody knows"""


class Forecast:
    """Watches rows and says how many seconds are left, if that can be said."""

    def __init__(self, until: Mapping[str, float]) -> None:
        self.until = until
        self._points: deque[tuple[float, float, float]] = deque(maxlen=_KEPT)

    def see(self, row: Mapping[str, float]) -> None:
        """One row; at most a few each second are kept, so that the trend is not one of a moment."""
        seconds = row["seconds"]
        if self._points and row["steps"] == self._points[-1][1]:
            return  # nothing was trained: it tells of an evaluation
        if not self._points or seconds >= self._points[-1][0] + 0.2:
            few = row.get("episodes", _FEW) < _FEW  # of them no trend can be made
            self._points.append((seconds, row["steps"], math.nan if few else row["return"]))

    @property
    def rate(self) -> float:
        """Steps per second, over the last quarter of what was seen."""
        if len(self._points) < 2:
            seconds, steps, _ = self._points[-1] if self._points else (0.0, 0.0, 0.0)
            return steps / seconds if seconds else 0.0
        early = self._points[min(len(self._points) - 2, 3 * len(self._points) // 4)]
        late = self._points[-1]
        return (late[1] - early[1]) / max(late[0] - early[0], 1e-9)

    def left(self) -> tuple[float, str] | None:
        """Seconds, and the limit that will be reached first; None: it cannot be said."""
        if not self._points:
            return None
        seconds, steps, _ = self._points[-1]
        guesses = []
        if "seconds" in self.until:
            guesses.append((self.until["seconds"] - seconds, "seconds"))
        covered = seconds - self._points[0][0]
        if "steps" in self.until and self.rate > 0 and covered >= _SEEN:
            guesses.append(((self.until["steps"] - steps) / self.rate, "steps"))
        if "return" in self.until and (trend := self._trend()) is not None:
            guesses.append((trend, "return"))
        return min(guesses, default=None) if guesses else None

    def _trend(self) -> float | None:
        """Seconds to the wanted return, along the line through the later half of the returns."""
        points = [(x, y) for x, _, y in self._points if math.isfinite(y)]
        points = points[len(points) // 2 :]
        if len(points) < 5 or points[-1][0] - points[0][0] < _SEEN:
            return None
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
        missing = self.until["return"] - points[-1][1]
        if missing <= 0:
            return 0.0
        if slope <= 0 or missing / slope > _FARTHEST * (points[-1][0] - points[0][0]):
            return None
        return missing / slope


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(9.7), duration(95), duration(3700), duration(200_000)
    ('10 s', '1 min 35 s', '1 h 01 min', '2 d 07 h')
    """
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02d} h"
