"""Where the boxes and edges of a picture go, in coordinates.

Every box has a cell of the grid. Between the rows are corridors, between the columns gutters, and
no box stands in them, so an edge that keeps to them crosses none. An edge to the next column is a
curve through one gutter; a longer one takes a free cell in each column it passes; one that goes
back, or on to the next band of a folded picture, has a lane of its own in corridors and gutters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from rillflow.pictures.grid import Edge, Grid, Key, place

Size = tuple[float, float]
Point = tuple[float, float]
SPREAD = 9.0
"""between the ends of edges that arrive at one box"""
_GUTTER, _CORRIDOR, _MARGIN = 52.0, 26.0, 14.0
_LANE, _RADIUS, _HEAD = 10.0, 7.0, 6.0


@dataclass(frozen=True)
class Box:
    """A rectangle, by its upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Route:
    """An edge as an SVG path, with the point and the direction of its arrowhead."""

    path: str
    tip: Point
    heading: Literal["right", "up", "down"]


@dataclass(frozen=True)
class Layout:
    """A finished arrangement; `routes` has the edges in their order, then the messages."""

    width: float
    height: float
    boxes: dict[str, Box]
    routes: list[Route]


def arrange(
    sizes: Mapping[str, Size], edges: Sequence[Edge], messages: Sequence[Edge] = ()
) -> Layout:
    """Place boxes of at least these sizes, all boxes of a column equally wide, and route edges.

    Messages have no say in where boxes go, and may lead anywhere.
    """
    return _Router(sizes, place(list(sizes), edges), edges, messages).layout()


class _Tracks:
    """Corridors or gutters: stretches that overlap in one of them get lanes of their own."""

    def __init__(self) -> None:
        self.stretches: dict[int, list[tuple[int, int, Key]]] = defaultdict(list)
        self.lane: dict[Key, int] = {}
        self.lanes: dict[int, int] = defaultdict(int)

    def ask(self, track: int, one: int, other: int, key: Key) -> None:
        """A stretch of a track, between two positions across it."""
        self.stretches[track].append((min(one, other), max(one, other), key))

    def settle(self) -> None:
        """Short stretches first, so that long ones run around them."""
        for track, stretches in self.stretches.items():
            used: list[list[tuple[int, int]]] = []
            for low, high, key in sorted(stretches, key=lambda s: s[1] - s[0]):
                index = 0
                while index < len(used) and any(a <= high and low <= b for a, b in used[index]):
                    index += 1
                if index == len(used):
                    used.append([])
                used[index].append((low, high))
                self.lane[key] = index
            self.lanes[track] = len(used)


@dataclass(frozen=True)
class _Detour:
    """A way through corridors and gutters in turn, from one side of a cell to one of another."""

    source: Key
    target: Key
    leave: Literal["top", "bottom", "right"]
    enter: Literal["top", "bottom", "left"]
    legs: tuple[int, ...]


class _Router:
    """Turns a grid into coordinates."""

    def __init__(
        self, sizes: Mapping[str, Size], grid: Grid, edges: Sequence[Edge], messages: Sequence[Edge]
    ) -> None:
        self.sizes, self.grid, self.edges = sizes, grid, [*edges, *messages]
        self.rows = max(grid.row.values(), default=-1) + 1
        self.columns = max(grid.column.values(), default=-1) + 1
        self.corridors, self.gutters = _Tracks(), _Tracks()
        self.detours: dict[Key, _Detour] = {}
        for index, path in enumerate(grid.paths):
            for one, other in pairwise(path):
                if grid.column[other] == 0:
                    self._plan((index, other), self._next_band(one, other))
        for index, edge in enumerate(self.edges):
            if index >= len(edges) or not grid.paths[index]:
                self._plan(index, self._around(*edge))
        self.corridors.settle()
        self.gutters.settle()
        self._measure()
        self.slots = self._slots()
        self.entry = self._entries()

    def layout(self) -> Layout:
        """Boxes and routes."""
        routes = [
            self._back(index) if index in self.detours else self._forward(index)
            for index in range(len(self.edges))
        ]
        return Layout(self.width, self.height, {key: self._box(key) for key in self.sizes}, routes)

    def _next_band(self, one: Key, other: Key) -> _Detour:
        return _Detour(one, other, "right", "left", (self.columns, self.grid.ceiling[other], 0))

    def _around(self, source: str, target: str) -> _Detour:
        """Out at the side that faces the target, and in at the side that faces the source."""
        row, column = self.grid.row, self.grid.column
        here, there = row[source], row[target]
        down, up = ("bottom", "top") if here < there else ("top", "bottom")
        if here == there:
            down = up = "top" if here == 0 and self.rows > 1 else "bottom"
        first, last = here + (down == "bottom"), there + (up == "bottom")
        beside = column[target] + (column[source] > column[target])
        legs = (first,) if first == last else (first, beside, last)
        return _Detour(source, target, down, up, legs)  # type: ignore[arg-type]

    def _plan(self, key: Key, detour: _Detour) -> None:
        """Ask for the stretches; across the tracks, cell c is at 2c+1 and track t at 2t."""
        self.detours[key] = detour
        sideways = detour.leave == "right"
        at = self.grid.row if sideways else self.grid.column
        start, stop = 2 * at[detour.source] + 1, 2 * at[detour.target] + 1
        marks = [start, *(2 * leg for leg in detour.legs), stop]
        for index, leg in enumerate(detour.legs):
            tracks = self.gutters if (index % 2 == 0) == sideways else self.corridors
            tracks.ask(leg, marks[index], marks[index + 2], (key, index))

    def _measure(self) -> None:
        widths, heights = [40.0] * self.columns, [_MARGIN] * self.rows
        for key, (width, height) in self.sizes.items():
            row, column = self.grid.row[key], self.grid.column[key]
            widths[column] = max(widths[column], width)
            heights[row] = max(heights[row], height)
        self.widths, self.heights = widths, heights
        self.x, self.gutter_x, self.width = _stacked(widths, self.gutters, _GUTTER)
        self.y, self.corridor_y, self.height = _stacked(heights, self.corridors, _CORRIDOR)

    def _box(self, key: Key) -> Box:
        column, height = self.grid.column[key], self.sizes[str(key)][1]
        return Box(self.x[column], self._middle(key) - height / 2, self.widths[column], height)

    def _middle(self, key: Key) -> float:
        row = self.grid.row[key]
        return self.y[row] + self.heights[row] / 2

    def _slots(self) -> dict[tuple[Key, str], float]:
        """Where each way round leaves and enters: no two in one place of a corridor."""
        docks: dict[tuple[int, int], list[tuple[int, str, Key]]] = defaultdict(list)
        column = self.grid.column
        for key, way in self.detours.items():
            if way.leave != "right":
                here, there = column[way.source], column[way.target]
                docks[here, way.legs[0]].append((there, "out", key))
                docks[there, way.legs[-1]].append((here, "in", key))
        slots: dict[tuple[Key, str], float] = {}
        for (at, _), users in docks.items():
            step = self.widths[at] / (len(users) + 1)
            for index, (_, end, key) in enumerate(sorted(users, key=lambda user: user[:2])):
                slots[key, end] = self.x[at] + step * (index + 1)
        return slots

    def _entries(self) -> dict[int, float]:
        """How far from the middle each edge arrives: level ones there, others above and below."""
        arriving: dict[Key, list[tuple[int, int]]] = defaultdict(list)
        row = self.grid.row
        for index, path in enumerate(self.grid.paths):
            if path:
                arriving[path[-1]].append((row[path[-2]] - row[path[-1]], index))
        entry: dict[int, float] = {}
        for target, ends in arriving.items():
            above = sorted(((r, i) for r, i in ends if r < 0), reverse=True)
            below = sorted((r, i) for r, i in ends if r > 0)
            alone = len(ends) == 1
            room = self.sizes[str(target)][1] / 2 - _MARGIN
            for side, sign in ((above, -1), (below, 1)):
                step = 0.0 if alone else min(SPREAD, room / max(1, len(side)))
                entry.update({i: sign * step * (n + 1) for n, (_, i) in enumerate(side)})
        return entry

    def _forward(self, index: int) -> Route:
        path = self.grid.paths[index]
        pen = [f"M{self._right(path[0]):g} {self._middle(path[0]):g}"]
        for one, other in pairwise(path):
            end = other is path[-1]
            start = (self._right(one), self._middle(one))
            x, y = self.x[self.grid.column[other]], self._middle(other)
            tip = (x, y + self.entry.get(index, 0.0)) if end else (x, y)
            stop = (tip[0] - _HEAD, tip[1]) if end else (self._right(other), y)
            if (index, other) in self.detours:
                corners = self._corners((index, other), start[1], tip[1])
                pen.append(_rounded([start, *corners, stop]))
            else:
                pen.append(_curve(start, (tip[0] - _HEAD, tip[1])) + f"H{stop[0]:g}")
        return Route("".join(pen), tip, "right")

    def _back(self, key: int) -> Route:
        way = self.detours[key]
        out, in_ = self._box(way.source), self._box(way.target)
        start = (self.slots[key, "out"], out.y + (out.height if way.leave == "bottom" else 0))
        tip = (self.slots[key, "in"], in_.y + (in_.height if way.enter == "bottom" else 0))
        short = (tip[0], tip[1] + (_HEAD if way.enter == "bottom" else -_HEAD))
        points = [start, *self._corners(key, start[0], tip[0]), short]
        path = f"M{start[0]:g} {start[1]:g}" + _rounded(points)
        return Route(path, tip, "up" if way.enter == "bottom" else "down")

    def _corners(self, key: Key, first: float, last: float) -> list[Point]:
        """Where the lines of a detour meet: they are level and upright in turn."""
        way = self.detours[key]
        upright = way.leave != "right"
        lines = [first]
        for index, leg in enumerate(way.legs):
            if (index % 2 == 0) == upright:
                lines.append(self.corridor_y[leg] + _LANE * self.corridors.lane[key, index])
            else:
                lines.append(self.gutter_x[leg] + _LANE * self.gutters.lane[key, index])
        lines.append(last)
        return [
            (one, other) if (index % 2 == 0) == upright else (other, one)
            for index, (one, other) in enumerate(pairwise(lines))
        ]

    def _right(self, key: Key) -> float:
        column = self.grid.column[key]
        return self.x[column] + self.widths[column]


def _stacked(
    cells: Sequence[float], tracks: _Tracks, gap: float
) -> tuple[list[float], list[float], float]:
    """Where each cell begins, where the first lane of each track is, and the length of it all."""
    last = len(cells)
    cells_at, lanes_at, here = [], [], 0.0
    for index in range(last + 1):
        lanes, outer = tracks.lanes[index], index in (0, last)
        lanes_at.append(here + (_MARGIN if outer else gap / 2))
        here += (_MARGIN if outer else gap) + _LANE * max(0, lanes - 1)
        here += _MARGIN if outer and lanes else 0
        if index < last:
            cells_at.append(here)
            here += cells[index]
    return cells_at, lanes_at, here


def _curve(start: Point, end: Point) -> str:
    if start[1] == end[1]:
        return f"H{end[0]:g}"
    middle = (start[0] + end[0]) / 2
    return f"C{middle:g} {start[1]:g} {middle:g} {end[1]:g} {end[0]:g} {end[1]:g}"


def _rounded(points: Sequence[Point]) -> str:
    """Lines through level and upright corners, rounded; the pen is at the first point."""
    pen = []
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        sides = [(end[0] - corner[0], end[1] - corner[1]) for end in (before, after)]
        lengths = [abs(dx) + abs(dy) for dx, dy in sides]
        radius = min(_RADIUS, *(length / 2 for length in lengths))
        one, other = (
            (corner[0] + dx / length * radius, corner[1] + dy / length * radius)
            for (dx, dy), length in zip(sides, lengths, strict=True)
        )
        pen.append(f"L{one[0]:g} {one[1]:g}Q{corner[0]:g} {corner[1]:g} {other[0]:g} {other[1]:g}")
    return "".join(pen) + f"L{points[-1][0]:g} {points[-1][1]:g}"
