"""Which cell of a grid each box of a picture goes to: layers, folded when long."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Size = tuple[float, float]
Point = tuple[float, float]
Edge = tuple[str, str]
Key = Hashable
"""a box, or the cell (edge, layer) that a long edge passes"""
_LAYERS_PER_BAND = 8


@dataclass(frozen=True)
class Grid:
    """Row and column of every cell in use, and the cells of every edge."""

    row: dict[Key, int]
    column: dict[Key, int]
    ceiling: dict[Key, int]
    """the first row of the band a cell is in"""
    paths: list[list[Key]]
    """the cells of each edge, from source to target; empty if it goes back"""


def place(boxes: Sequence[str], edges: Sequence[Edge]) -> Grid:
    """A cell for every box: columns by longest path, rows with few crossings and few bends."""
    layer = _layers(boxes, edges)
    paths: list[list[Key]] = []
    for index, (source, target) in enumerate(edges):
        first, last = layer[source], layer[target]
        between = [(index, at) for at in range(first + 1, last)]
        paths.append([source, *between, target] if first < last else [])
        layer.update({cell: cell[1] for cell in between})
    before: dict[Key, list[Key]] = {key: [] for key in layer}
    after: dict[Key, list[Key]] = {key: [] for key in layer}
    for path in paths:
        for one, other in pairwise(path):
            after[one].append(other)
            before[other].append(one)
    order: list[list[Key]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for key, at in sorted(layer.items(), key=lambda item: not after[item[0]]):
        order[at].append(key)  # dead ends last, out of the way of what goes on
    order = _untangle(order, before, after)
    return _fold(order, _rows(order, before, after), paths)


def _layers(boxes: Sequence[str], edges: Sequence[Edge]) -> dict[Key, int]:
    """The longest path to each box; an edge that closes a cycle is left out."""
    after: dict[str, list[str]] = {box: [] for box in boxes}
    for source, target in edges:
        after[source].append(target)
    entered: set[str] = set()
    finished: dict[str, list[str]] = {}
    for start in boxes:
        stack = [start]
        while stack:
            box = stack[-1]
            if box not in entered:
                entered.add(box)
                stack += [other for other in after[box] if other not in entered]
                continue
            stack.pop()
            if box not in finished:  # what it leads to and is not finished is a way back to it
                finished[box] = [other for other in after[box] if other in finished]
    layer: dict[Key, int] = dict.fromkeys(boxes, 0)
    for box in reversed(finished):
        for target in finished[box]:
            layer[target] = max(layer[target], layer[box] + 1)
    return layer


def _untangle(
    order: list[list[Key]], before: Mapping[Key, list[Key]], after: Mapping[Key, list[Key]]
) -> list[list[Key]]:
    """Order each layer by the mean place of its neighbours, back and forth; keep the best order."""
    best, fewest = order, _crossings(order, after)
    for sweep in range(8):
        forward = sweep % 2 == 0
        beside = before if forward else after
        turned: list[list[Key]] = []
        spot: dict[Key, float] = {}
        for layer in order if forward else reversed(order):
            means = {
                key: _mean([spot[other] for other in beside[key]], float(index))
                for index, key in enumerate(layer)
            }
            turned.append(sorted(layer, key=means.__getitem__))
            spot.update({key: float(index) for index, key in enumerate(turned[-1])})
        order = turned if forward else turned[::-1]
        if (crossings := _crossings(order, after)) < fewest:
            best, fewest = order, crossings
    return best


def _crossings(order: list[list[Key]], after: Mapping[Key, list[Key]]) -> int:
    total = 0
    for layer, following in pairwise(order):
        spot = {key: index for index, key in enumerate(following)}
        ends: list[int] = []
        for key in layer:
            targets = sorted(spot[other] for other in after[key])
            total += sum(len(ends) - bisect(ends, target) for target in targets)
            for target in targets:
                insort(ends, target)
    return total


def _rows(
    order: list[list[Key]], before: Mapping[Key, list[Key]], after: Mapping[Key, list[Key]]
) -> dict[Key, int]:
    """A row for each cell, kept in order, as level with its neighbours as the others allow."""
    row = {key: index for layer in order for index, key in enumerate(layer)}
    for sweep in range(6):
        forward = sweep % 2 == 1
        beside = before if forward else after
        for layer in order if forward else reversed(order):
            wanted = []
            for key in layer:
                rows = sorted(row[other] for other in beside[key])
                wanted.append(rows[(len(rows) - 1) // 2] if rows else row[key])
            row.update(zip(layer, _spaced(wanted), strict=True))
    return row


def _spaced(wanted: Sequence[int]) -> list[int]:
    """Rising whole numbers near the wanted ones, by isotonic regression of value less index."""
    blocks: list[list[float]] = []
    for index, value in enumerate(wanted):
        blocks.append([value - index])
        while len(blocks) > 1 and _mean(blocks[-2], 0) > _mean(blocks[-1], 0):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    level = [round(_mean(block, 0)) for block in blocks for _ in block]
    return [value + index for index, value in enumerate(level)]


def _fold(order: list[list[Key]], row: dict[Key, int], paths: list[list[Key]]) -> Grid:
    """Bands of layers below one another, each without empty rows."""
    layer_of = {key: at for at, layer in enumerate(order) for key in layer}
    links = [0] * (len(order) + 1)
    for path in paths:
        for key in path[1:]:
            links[layer_of[key]] += 1
    grid = Grid({}, {}, {}, paths)
    top = 0
    for start, stop in pairwise(_cuts(links)):
        layers = order[start:stop]
        used = sorted({row[key] for layer in layers for key in layer})
        rank = {value: top + index for index, value in enumerate(used)}
        for column, layer in enumerate(layers):
            for key in layer:
                grid.row[key], grid.column[key] = rank[row[key]], column
                grid.ceiling[key] = top
        top += len(used)
    return grid


def _cuts(links: Sequence[int]) -> list[int]:
    """Where bands begin, and the end: few bands, then few edges cut, then bands of equal length."""
    best: list[tuple[int, list[int]]] = [(0, [0])]
    for stop in range(1, len(links)):
        starts = range(max(0, stop - _LAYERS_PER_BAND), stop)
        ways = (
            (best[at][0] + 1000 + 10 * links[at] + (stop - at) ** 2, [*best[at][1], stop])
            for at in starts
        )
        best.append(min(ways))
    return best[-1][1]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
