"""Curves made of characters: each holds two by four dots."""

from __future__ import annotations

import math
from collections.abc import Sequence

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800
MARK = "o"
"""of a single point: a letter, which every terminal has in every font"""


def curve(
    xs: Sequence[float],
    ys: Sequence[float],
    *,
    width: int,
    height: int,
    level: float | None = None,
    from_zero: bool = False,
    marks: Sequence[tuple[float, float]] = (),
) -> list[str]:
    """Lines of text with the points joined, the smallest and largest value at the left.

    Args:
        xs: rising.
        ys: as many; what is not finite is left out.
        width: in characters, labels included.
        height: in lines.
        level: a value to mark by a dotted line, such as a goal.
        from_zero: begin the axis there.
        marks: single points beside the curve, each a circle.

    >>> print("\\n".join(curve([0, 1, 2, 3], [0, 1, 4, 9], width=14, height=3)))
      9 ┤⠀⠀⠀⠀⠀⠀⠀⡠⠊
        │⠀⠀⠀⠀⠀⡠⠊⠀⠀
      0 ┤⣀⡠⠤⠔⠉⠀⠀⠀⠀
    """
    points = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(y)]
    if not points:
        return [""] * height
    marks = [mark for mark in marks if all(map(math.isfinite, mark))]
    known = [y for _, y in [*points, *marks]] + ([] if level is None else [level])
    low, high = min([*known, 0.0] if from_zero else known), max(known)
    if high == low:
        low, high = low - 0.5, high + 0.5
    labels = {0: number(high), height - 1: number(low)}
    margin = max(len(label) for label in labels.values()) + 2
    cells = _cells(points, max(4, width - margin - 2), height, low, high)
    marked = None if level is None else _row(level, low, high, 4 * height) // 4
    lines = []
    circles = {
        (
            _row(y, low, high, 4 * height) // 4,
            _column(x, points[0][0], points[-1][0], 2 * len(cells[0])) // 2,
        )
        for x, y in marks
    }
    for index, line in enumerate(cells):
        text = "".join(chr(_BLANK + dots) for dots in line)
        if index == marked:
            text = text.replace(chr(_BLANK), "┄")
        text = "".join(MARK if (index, i) in circles else here for i, here in enumerate(text))
        axis = "┤" if index in labels else "│"
        lines.append(f"{labels.get(index, ''):>{margin}} {axis}{text}")
    return lines


def _cells(
    points: list[tuple[float, float]], width: int, height: int, low: float, high: float
) -> list[list[int]]:
    cells = [[0] * width for _ in range(height)]
    first, last = points[0][0], points[-1][0]
    columns = 2 * width
    by_column: dict[int, list[float]] = {}
    for x, y in points:
        by_column.setdefault(_column(x, first, last, columns), []).append(y)
    means = {column: sum(values) / len(values) for column, values in by_column.items()}
    before: int | None = None
    for column in range(columns):
        here = _between(means, column)
        if here is None:
            continue
        row = _row(here, low, high, 4 * height)
        # a steep piece is drawn as a stroke, so that the curve has no holes
        start = row if before is None else before + (row > before) - (row < before)
        for dot in range(min(start, row), max(start, row) + 1):
            cells[dot // 4][column // 2] |= _DOTS[dot % 4][column % 2]
        before = row
    return cells


def _column(x: float, first: float, last: float, columns: int) -> int:
    """The column of dots of a place; what lies beyond the ends is at them."""
    share = (x - first) / (last - first) if last > first else 0.0
    return min(columns - 1, max(0, int(share * (columns - 1) + 0.5)))


def _between(means: dict[int, float], column: int) -> float | None:
    """The value at a column, on the line between the known ones beside it."""
    if column in means:
        return means[column]
    left = max((known for known in means if known < column), default=None)
    right = min((known for known in means if known > column), default=None)
    if left is None or right is None:
        return None
    share = (column - left) / (right - left)
    return means[left] + share * (means[right] - means[left])


def _row(y: float, low: float, high: float, dots: int) -> int:
    """The line of dots of a value, from the top."""
    share = (y - low) / (high - low)
    return min(dots - 1, max(0, round((1 - share) * (dots - 1))))


def bar(share: float, width: int) -> str:
    """A bar, full to this share.

    >>> bar(0.5, 8)
    '━━━━────'
    """
    full = round(min(1.0, max(0.0, share)) * width)
    return "━" * full + "─" * (width - full)


def number(value: float) -> str:
    """A figure for an axis.

    >>> number(475.0), number(0.25), number(123456.0), number(-1.5)
    ('475', '0.25', '123,456', '-1.5')
    """
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"
