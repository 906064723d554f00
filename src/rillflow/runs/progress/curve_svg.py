"""A learning curve as a small SVG picture, which takes its ink from the page around it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

WIDTH, HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 34
_LINE, _DOT, _GOAL = "#2b7bba", "#c2418a", "#2f9e5f"
"""readable on white and on black"""
_POINTS = 400
Point = tuple[float, float]


class CurvePicture:
    """A learning curve that a notebook draws; `svg` is its text.

    >>> CurvePicture([{"steps": 0, "return": 1.0}, {"steps": 9, "return": 2.0}]).svg[:4]
    '<svg'
    """

    def __init__(self, history: Sequence[Mapping[str, float]], goal: float | None = None) -> None:
        self.history, self.goal = history, goal

    @property
    def svg(self) -> str:
        """The picture; nothing outside the text is needed to show it."""
        return curve_svg(self.history, self.goal)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<learning curve of {len(self.history):,} rows>"


def curve_svg(history: Sequence[Mapping[str, float]], goal: float | None = None) -> str:
    """The return of training as a line, evaluations as dots, the goal as a dashed line."""
    line = _thinned(_points(history, "steps", "return"))
    dots = _points(history, "eval_steps", "eval_return")
    known = [y for _, y in [*line, *dots]] + ([] if goal is None else [goal])
    xs = [x for x, _ in [*line, *dots]]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'style="width:100%;max-width:{WIDTH}px;height:auto" fill="none" role="img" '
        'aria-label="learning curve" font-family="system-ui, sans-serif" font-size="12">'
    ]
    if not line:
        parts.append(_text(WIDTH / 2, HEIGHT / 2, "no episode has ended yet", "middle"))
        return "".join([*parts, "</svg>"])
    ticks = nice_ticks(min(known), max(known))
    low, high = min(ticks[0], *known), max(ticks[-1], *known)
    first, last = min(xs), max(xs)

    def at(x: float, y: float) -> Point:
        across = (x - first) / ((last - first) or 1.0)
        up = (y - low) / ((high - low) or 1.0)
        return (
            _LEFT + across * (WIDTH - _LEFT - _RIGHT),
            HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM),
        )

    for tick in ticks:
        _, y = at(first, tick)
        parts.append(_rule(y, "currentColor", 0.15, ""))
        parts.append(_text(_LEFT - 8, y + 4, short(tick), "end"))
    if goal is not None:
        parts.append(_rule(at(first, goal)[1], _GOAL, 0.9, ' stroke-dasharray="5 4"'))
    parts.append(_text(_LEFT, HEIGHT - 12, short(first), "start"))
    parts.append(_text(WIDTH - _RIGHT, HEIGHT - 12, f"{short(last)} steps", "end"))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in line))
    parts.append(f'<polyline points="{path}" stroke="{_LINE}" stroke-width="2"/>')
    for point in dots:
        x, y = at(*point)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{_DOT}"/>')
    legend = "return, mean of 100 episodes" + (" · dots: evaluations" if dots else "")
    parts.append(_text((WIDTH + _LEFT) / 2, HEIGHT - 12, legend, "middle"))
    return "".join([*parts, "</svg>"])


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round figures from below the least to above the largest.

    >>> nice_ticks(8.0, 487.0), nice_ticks(0.0, 0.0)
    ([0.0, 200.0, 400.0, 600.0], [-0.5, 0.0, 0.5])
    """
    if high <= low:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * by for by in (1, 2, 5, 10) if unit * by >= rough)
    first = math.floor(low / step)
    return [index * step for index in range(first, math.ceil(high / step) + 1)]


def short(value: float) -> str:
    """A figure of an axis.

    >>> short(1500.0), short(2_400_000), short(0.25), short(-110.0)
    ('1,500', '2.4M', '0.25', '-110')
    """
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.3g}k"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def _points(history: Sequence[Mapping[str, float]], x: str, y: str) -> list[Point]:
    found = [(row.get(x, math.nan), row.get(y, math.nan)) for row in history]
    return [point for point in found if all(map(math.isfinite, point))]


def _thinned(points: list[Point]) -> list[Point]:
    """Means of neighbours where there are more points than the picture can show."""
    size = -(-len(points) // _POINTS)
    if size <= 1:
        return points
    cuts = [*range(0, len(points), size), len(points)]
    pieces = [points[a:b] for a, b in pairwise(cuts)]
    return [(piece[-1][0], sum(y for _, y in piece) / len(piece)) for piece in pieces]


def _rule(y: float, colour: str, strength: float, more: str) -> str:
    ends = f'x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-opacity="{strength}"{more}/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    how = 'fill="currentColor" fill-opacity="0.75"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {how} text-anchor="{anchor}">{words}</text>'
