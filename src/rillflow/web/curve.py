"""The figures of a run over time, thinned out as they grow: any number of rows, a bounded curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_POINTS = 300
"""between this and twice as many points are kept"""
_FIGURES = 64
"""more columns than anybody looks at"""
_COUNTERS = ("steps", "episodes", "seconds", "time")
"""of these a point has the last value; of all others the mean of the rows it stands for"""

_HUGE = 1e300

Point = dict[str, float]


class Curve:
    """Rows in, points out; when there are too many, each pair of neighbours becomes one.

    >>> curve = Curve()
    >>> for step in range(10_000):
    ...     curve.add({"steps": step, "return": 1.0 if step % 2 else 3.0})
    >>> columns = curve.columns()
    >>> len(columns["steps"]) <= 601, columns["steps"][-1], columns["return"][100]
    (True, 9999.0, 2.0)
    """

    def __init__(self, points: int = _POINTS, figures: int = _FIGURES) -> None:
        self.rows = 0
        self._most, self._figures = 2 * points, figures
        self.last: Point = {}
        """the newest value of every figure"""
        self._points: list[Point] = []
        self._stride = 1
        self._bucket: list[Point] = []
        """rows of the point that is not full yet"""

    def add(self, row: Mapping[str, Any]) -> None:
        """One row; what is not a finite number is not there."""
        point = {key: float(value) for key, value in row.items() if _finite(value)}
        for key in [key for key in point if key not in self.last]:
            if len(self.last) >= self._figures:
                del point[key]
            else:
                self.last[key] = point[key]
        self.rows += 1
        self.last.update(point)
        self._bucket.append(point)
        if len(self._bucket) < self._stride:
            return
        self._points.append(_joined(self._bucket))
        self._bucket = []
        if len(self._points) >= self._most:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [_joined(list(pair)) for pair in pairs]
            self._stride *= 2

    def columns(self) -> dict[str, list[float | None]]:
        """Each figure as a list over all points; None where a point does not have it."""
        points = [*self._points, _joined(self._bucket)] if self._bucket else self._points
        return {key: [point.get(key) for point in points] for key in self.last}


def _finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_HUGE < value < _HUGE


def _joined(points: list[Point]) -> Point:
    """One point for several: the last count, the mean of anything else."""
    if len(points) == 1:
        return {
            key: value if key in _COUNTERS else float(f"{value:.7g}")
            for key, value in points[0].items()
        }
    sums: dict[str, list[float]] = {}
    for point in points:
        for key, value in point.items():
            sums.setdefault(key, []).append(value)
    return {
        key: values[-1] if key in _COUNTERS else float(f"{sum(values) / len(values):.7g}")
        for key, values in sums.items()
    }
