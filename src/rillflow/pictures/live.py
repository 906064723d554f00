"""A graph as an SVG that the page can bring to life: as `pictures/svg.py`, with room for figures.

Colours are classes, so that the page's light and dark schemes decide on them. Every box has a line
for its rate and a bar for how busy it is; every edge has a second path for what moves along it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from rillflow.pictures.labels import facts, paint_of, title_of, where_of
from rillflow.pictures.layout import SPREAD, Box, Route, arrange
from rillflow.pictures.svg import Caption, arrow_head, caption, escape

Json = dict[str, Any]
_PAD, _STACK, _BAR, _LIVE, _TALLEST = 11.0, 7.0, 9.0, 21.0, 170.0
_NARROWEST = 104.0
"""a rate and a share, side by side"""


def draw(document: Json) -> Json:
    """The picture, and what the page has to know of each box and edge."""
    boxes, edges = document["nodes"], _sorted_edges(document)
    captions = {box["id"]: caption(box) for box in boxes}
    arriving = Counter(edge["to"] for edge in edges if edge["kind"] != "message")
    sizes = {box["id"]: _size(box, captions[box["id"]], arriving[box["id"]]) for box in boxes}
    forward = [(edge["from"], edge["to"]) for edge in edges if not edge["back"]]
    back = [(edge["from"], edge["to"]) for edge in edges if edge["back"]]
    layout = arrange(sizes, forward, back)
    body = [_edge(i, edge, layout.routes[i]) for i, edge in enumerate(edges)]
    body += [
        _box(i, box, captions[box["id"]], layout.boxes[box["id"]]) for i, box in enumerate(boxes)
    ]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{layout.width:g}" '
        f'height="{layout.height:g}" viewBox="0 0 {layout.width:g} {layout.height:g}" '
        f'role="img" aria-label="dataflow graph">{"".join(body)}</svg>'
    )
    return {
        "svg": svg,
        "width": layout.width,
        "boxes": [_about(box) for box in boxes],
        "edges": [{k: edge.get(k) for k in ("from", "to", "kind", "queue")} for edge in edges],
    }


def _about(box: Json) -> Json:
    keys = ("id", "kind", "where", "groups", "queue", "barrier")
    return {key: box.get(key) for key in keys} | {"title": title_of(box)}


def _sorted_edges(document: Json) -> list[Json]:
    """Those that lead on first, then the messages that lead back to the sources of items."""
    ends = {box["id"] for box in document["nodes"] if box["kind"] == "group"}
    edges = [
        {**edge, "back": edge["kind"] == "message" and edge["to"] not in ends}
        for edge in document["edges"]
    ]
    return sorted(edges, key=lambda edge: bool(edge["back"]))


def _size(box: Json, text: Caption, arriving: int) -> tuple[float, float]:
    width = max(text.width, _NARROWEST) + 2 * _PAD
    height = text.height + 2 * _PAD - 5 + _LIVE
    height = max(height, min(_TALLEST, SPREAD * (arriving + 3)))
    if _copies(box):
        return width + _STACK, height + _STACK
    return (width + _BAR, height) if box.get("barrier") else (width, height)


def _copies(box: Json) -> bool:
    return bool(box["parallel"]) and int(box["shards"]) > 1


def _box(index: int, box: Json, text: Caption, at: Box) -> str:
    x, y, width, height = at.x, at.y, at.width, at.height
    words = "\n".join([title_of(box), where_of(box), *facts(box)])
    parts = [f"<title>{escape(words)}</title>"]
    if _copies(box):
        width, height, y = width - _STACK, height - _STACK, y + _STACK
        for off in (_STACK, _STACK / 2):
            parts.append(_rect("back", x + off, y - off, width, height, 8))
    elif box.get("barrier"):
        parts.append(_rect("barrier", x, y - 4, 4, height + 8, 2))
        x, width = x + _BAR, width - _BAR
    parts.append(_rect("body", x, y, width, height, 8))
    middle, here = x + width / 2, y + (height - _LIVE - text.height) / 2 + 12
    for line in text.title:
        parts.append(_text("title", middle, here, line))
        here += 16
    for line in text.small:
        parts.append(_text("small", middle, here - 1, line))
        here += 14
    parts.append(_text("live", middle, y + height - 13, ""))
    inner = width - 2 * _PAD
    parts.append(_rect("track", x + _PAD, y + height - 8, inner, 3, 1.5))
    parts.append(_rect("bar", x + _PAD, y + height - 8, inner, 3, 1.5))
    parts.append(_pill(x + width, y))
    kind = escape(paint_of(box))
    return f'<g class="box {kind}" data-box="{index}">{"".join(parts)}</g>'


def _pill(right: float, top: float) -> str:
    """Says `bottleneck`, on the upper edge of the box that is one."""
    wide, high = 66.0, 14.0
    x, y = right - wide - 6, top - high / 2
    label = _text("", x + wide / 2, y + 10.4, "bottleneck")
    return f'<g class="pill">{_rect("", x, y, wide, high, 7)}{label}</g>'


def _edge(index: int, edge: Json, route: Route) -> str:
    head = arrow_head(route)
    return (
        f'<g class="edge {_sort(edge)}" data-edge="{index}">'
        f'<path class="line" d="{route.path}"/><path class="moving" d="{route.path}"/>'
        f'<polygon points="{head}"/></g>'
    )


def _sort(edge: Json) -> str:
    if edge["kind"] != "data":
        return "message" if edge["kind"] == "message" else "through-queue"
    if edge.get("output") is False:
        return "effects"
    return "ready" if edge["async"] else "data"


def _rect(kind: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    return (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'rx="{radius:g}"/>'
    )


def _text(kind: str, x: float, y: float, words: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'
