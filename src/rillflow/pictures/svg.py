"""A flow as a self-contained SVG picture, from the schema in `schema.py`.

Colours say where an operator runs, a stack of boxes that there is one copy per shard. As in the
RLlib Flow paper, pink edges are asynchronous and dotted pink ones are messages.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from html import escape as escape_html
from unicodedata import east_asian_width

from rillflow.graph.node import Node
from rillflow.pictures.graph_json import Json, to_json
from rillflow.pictures.labels import PAINT, TIMES, facts, paint_of, title_of, where_of
from rillflow.pictures.layout import SPREAD, Box, Layout, Route, arrange

_TITLE, _SMALL = 13.0, 11.0
_WIDEST, _TALLEST, _PAD, _STACK, _BAR = 184.0, 160.0, 11.0, 8.0, 9.0
_INK, _GREY, _PINK, _AMBER, _PALE = "#1f2933", "#5b6673", "#d6337c", "#b7791f", "#b3bcc8"
_FONT = "ui-sans-serif, system-ui, 'Segoe UI', Roboto, Helvetica, Arial, 'DejaVu Sans', sans-serif"
_FULL = {"wait": "", "drop_newest": ", drops newest", "drop_oldest": ", drops oldest"}


@dataclass(frozen=True)
class Caption:
    """The lines written in a box, cut to fit."""

    title: tuple[str, ...]
    small: tuple[str, ...]

    @property
    def width(self) -> float:
        """How wide the lines are."""
        titles = [text_width(line, _TITLE, bold=True) for line in self.title]
        return max(*titles, *(text_width(line, _SMALL) for line in self.small), 56.0)

    @property
    def height(self) -> float:
        """How high the lines are together."""
        return len(self.title) * 16 + len(self.small) * 14


def to_svg(node: Node) -> str:
    """A flow as a picture, from left to right; nothing outside the text is needed to show it."""
    document = to_json(node)
    captions, layout = picture(document)
    legend, legend_width, legend_height = _legend(document, layout.width)
    width = max(layout.width, legend_width)
    height = layout.height + legend_height
    boxes = document["nodes"]
    forward, back = _edges(document)
    drawn = zip([*forward, *back], layout.routes, strict=True)
    body = [_edge(edge, route) for edge, route in drawn]
    body += [_box(box, captions[box["id"]], layout.boxes[box["id"]]) for box in boxes]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="{_FONT}" role="img">'
    )
    title = f"<title>{escape(document['output'])}</title>"
    page = (
        f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="10" '
        'fill="#fcfcfd" stroke="#e3e6ea"/>'
    )
    foot = f'<g transform="translate(0 {layout.height:g})">{legend}</g>'
    return "\n".join([head, title, page, *body, foot, "</svg>"]) + "\n"


def picture(document: Json) -> tuple[dict[str, Caption], Layout]:
    """The captions of all boxes, and an arrangement in which they fit."""
    captions = {box["id"]: caption(box) for box in document["nodes"]}
    arriving = Counter(edge["to"] for edge in document["edges"] if edge["kind"] != "message")
    sizes = {
        box["id"]: _size(box, captions[box["id"]], arriving[box["id"]]) for box in document["nodes"]
    }
    forward, back = ([(edge["from"], edge["to"]) for edge in some] for some in _edges(document))
    return captions, arrange(sizes, forward, back)


def _edges(document: Json) -> tuple[list[Json], list[Json]]:
    """The edges that lead on, and the messages that lead back to the sources of items.

    A group that makes no items stands to the right of who writes to it, like any other reader.
    """
    ends = {box["id"] for box in document["nodes"] if box["kind"] == "group"}
    forward: list[Json] = []
    back: list[Json] = []
    for edge in document["edges"]:
        (back if edge["kind"] == "message" and edge["to"] not in ends else forward).append(edge)
    return forward, back


def caption(box: Json) -> Caption:
    """What is written in a box: short, for the tooltip has it all."""
    title, small = _short(box)
    copies = f" {TIMES}{box['shards']}" if box["parallel"] else ""
    room = _WIDEST - text_width(copies, _TITLE, bold=True)
    small = [_cut(line, _SMALL, _WIDEST) for line in small if line]
    lines = _wrap(title, room)
    return Caption((*lines[:-1], lines[-1] + copies), tuple(small))


def _short(box: Json) -> tuple[str, list[str]]:
    kind, label = box["kind"], box["label"]
    title, small = box["name"] or label, [label if box["name"] else ""]
    group = " + ".join(box["groups"])
    if kind == "actors":
        inner = re.fullmatch(r"from_actors\((.+)\)", label)
        return box["name"] or (inner[1] if inner else label), [group]
    if kind == "transform" and box["fn"] is not None:
        title, small = box["name"] or box["fn"], [label if box["name"] else box["op"]]
    if kind == "transform" and box["parallel"]:
        return title, [*small, f"in {group}"] if box["name"] else [f"{small[0]} in {group}".strip()]
    if kind in ("route", "shards"):
        return title, [*small, group]
    if kind == "gather":
        about = "barrier" if box["barrier"] else f"≤ {box['num_async']} open per shard"
        return box["name"] or label.split("(")[0], [about]
    if kind == "split":
        return title, [f"≤ {box['buffer']} apart"]
    if kind == "union":
        turns = "turns " + ":".join(str(weight) for weight in box["weights"])
        every = len(set(box["outputs"])) == len(box["weights"])
        mode = "as ready" if box["mode"] == "async" else turns
        return box["name"] or "union", [mode, "" if every else f"gives {box['outputs']}"]
    if kind in ("enqueue", "dequeue"):
        return box["name"] or kind, [box["queue"], _holds(box)]
    if kind == "queue":
        return box["queue"], ["queue, " + _holds(box)]
    if kind == "background":
        return title, [f"on a {box['where']}" if box["where"] != "driver" else "in the driver"]
    return title, [box["class"]] if kind == "group" else small


def _holds(box: Json) -> str:
    return f"holds {box['capacity']}{_FULL[box['when_full']]}"


def _size(box: Json, text: Caption, arriving: int) -> tuple[float, float]:
    width, height = text.width + 2 * _PAD, text.height + 2 * _PAD - 3
    height = max(height, min(_TALLEST, SPREAD * (arriving + 3)))
    if _stacked(box):
        return width + _STACK, height + _STACK
    return (width + _BAR, height) if box.get("barrier") else (width, height)


def _stacked(box: Json) -> bool:
    return bool(box["parallel"]) and box["shards"] > 1


def _box(box: Json, text: Caption, at: Box) -> str:
    fill, line = PAINT[paint_of(box)]
    x, y, width, height = at.x, at.y, at.width, at.height
    parts = [f"<title>{escape(_tooltip(box))}</title>"]
    if _stacked(box):
        width, height, y = width - _STACK, height - _STACK, y + _STACK
        for off in (_STACK, _STACK / 2):
            parts.append(_rect(x + off, y - off, width, height, fill, line, opacity=0.55))
    elif box.get("barrier"):
        parts.append(_rect(x, y - 4, 5, height + 8, _INK, _INK, radius=2))
        x, width = x + _BAR, width - _BAR
    parts.append(_rect(x, y, width, height, fill, line))
    middle, here = x + width / 2, y + (height - text.height) / 2 + 12
    for words in text.title:
        parts.append(_text(middle, here, words, _TITLE, _INK, weight="600"))
        here += 16
    for words in text.small:
        parts.append(_text(middle, here - 1, words, _SMALL, _GREY))
        here += 14
    return "<g>" + "".join(parts) + "</g>"


def _tooltip(box: Json) -> str:
    return "\n".join([title_of(box), where_of(box), *facts(box)])


def arrow_head(route: Route) -> str:
    """The points of the triangle at the end of an edge."""
    x, y = route.tip
    along, across = {"right": ((-8, 0), (0, 4)), "up": ((0, 8), (4, 0)), "down": ((0, -8), (4, 0))}[
        route.heading
    ]
    wings = [(x + along[0] + s * across[0], y + along[1] + s * across[1]) for s in (1, -1)]
    return " ".join(f"{px:g},{py:g}" for px, py in [(x, y), *wings])


def _edge(edge: Json, route: Route) -> str:
    colour, style = _look(edge)
    head = arrow_head(route)
    return (
        f'<path d="{route.path}" fill="none" stroke="{colour}" {style}/>'
        f'<polygon points="{head}" fill="{colour}"/>'
    )


def _look(edge: Json) -> tuple[str, str]:
    return {
        "data": (_GREY, 'stroke-width="1.5"'),
        "data, as ready": (_PINK, 'stroke-width="1.5"'),
        "for its effects only": (_PALE, 'stroke-width="1.4"'),
        "through a queue": (_AMBER, 'stroke-width="2.2"'),
        "message": (_PINK, 'stroke-width="1.6" stroke-dasharray="0.1 4" stroke-linecap="round"'),
    }[_sort(edge)]


def _legend(document: Json, width: float) -> tuple[str, float, float]:
    """Only what occurs in the picture, in as many lines as it takes."""
    width = max(width, 260.0)
    parts, x, y = [], 14.0, 14.0
    for mark, words in _entries(document):
        need = 34 + text_width(words, _SMALL) + 14
        if x + need > width and x > 14:
            x, y = 14.0, y + 20
        parts.append(f'<g transform="translate({x:g} {y:g})">{mark}</g>')
        parts.append(_text(x + 32, y + 4, words, _SMALL, _GREY, anchor="start"))
        x += need
    return "".join(parts), width, y + 20


def _entries(document: Json) -> list[tuple[str, str]]:
    boxes, edges = document["nodes"], document["edges"]
    painted = {paint_of(box) for box in boxes}
    names = {
        "actors": "in actors, one copy per shard",
        "driver": "in the driver",
        "background": "in the background",
        "queue": "queue",
    }
    entries = [
        (_rect(4, -6, 20, 12, *PAINT[kind], radius=3), words)
        for kind, words in names.items()
        if kind in painted
    ]
    if any(box.get("barrier") for box in boxes):
        entries.append((_rect(19, -8, 5, 16, _INK, _INK, radius=2), "barrier"))
    used = {_sort(edge): edge for edge in reversed(edges)}
    sample = Route("M2 0H20", (27, 0), "right")
    return entries + [(_edge(used[words], sample), words) for words in _SORTS if words in used]


_SORTS = ("data", "data, as ready", "for its effects only", "through a queue", "message")


def _sort(edge: Json) -> str:
    if edge["kind"] != "data":
        return "message" if edge["kind"] == "message" else "through a queue"
    if edge.get("output") is False:
        return "for its effects only"
    return "data, as ready" if edge["async"] else "data"


def escape(text: str) -> str:
    """Text for XML, which cannot even quote most control characters."""
    return escape_html("".join(c if c.isprintable() or c == "\n" else " " for c in text))


def _rect(
    x: float, y: float, width: float, height: float, fill: str, line: str, *,
    radius: float = 7, opacity: float = 1,
) -> str:  # fmt: skip
    fade = f' opacity="{opacity:g}"' if opacity < 1 else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" '
        f'fill="{fill}" stroke="{line}" stroke-width="1.3"{fade}/>'
    )


def _text(
    x: float, y: float, words: str, size: float, colour: str, *,
    weight: str = "400", anchor: str = "middle",
) -> str:  # fmt: skip
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'
    )


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """About how wide a text is, in the widest of the usual fonts."""
    ems = sum(_ems(character) for character in text)
    return ems * size * (1.12 if bold else 1.0)


def _ems(character: str) -> float:
    if east_asian_width(character) in "WF":
        return 1.05
    if character in "iljI.,:;'|!()[] ftr":
        return 0.38
    if character in "mwMW@%…" + TIMES:
        return 0.95
    return 0.72 if character.isupper() else 0.63


def _wrap(text: str, room: float) -> list[str]:
    """One line, or two broken where a name has a joint; the second is cut if need be."""
    if text_width(text, _TITLE, bold=True) <= room:
        return [text]
    joints = [m.end() for m in re.finditer(r"[._ ,(/-](?!$)|(?<=[a-z0-9])(?=[A-Z])", text)]
    fitting = [at for at in joints if text_width(text[:at], _TITLE, bold=True) <= room]
    if not fitting:
        return [_cut(text, _TITLE, room, bold=True)]
    return [text[: fitting[-1]].rstrip(), _cut(text[fitting[-1] :], _TITLE, room, bold=True)]


def _cut(text: str, size: float, room: float, *, bold: bool = False) -> str:
    if text_width(text, size, bold=bold) <= room:
        return text
    while text and text_width(text + "…", size, bold=bold) > room:
        text = text[:-1]
    return text + "…"
