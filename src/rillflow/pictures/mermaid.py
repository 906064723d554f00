"""A flow as a Mermaid flowchart."""

from __future__ import annotations

from rillflow.graph.node import Node
from rillflow.pictures.graph_json import Json, to_json
from rillflow.pictures.labels import PAINT, facts, paint_of, title_of, where_of

_SHAPES = {"queue": ("[(", ")]"), "background": ("[[", "]]"), "group": ("([", "])")}


def to_mermaid(node: Node) -> str:
    """A flow as a Mermaid flowchart: a subgraph per group of actors, and one for the driver."""
    document = to_json(node)
    keys = {box["id"]: f"n{index}" for index, box in enumerate(document["nodes"])}
    places: dict[str, list[str]] = {}
    for box in document["nodes"]:
        left, right = _SHAPES.get(box["kind"], ("([", "])") if box["parallel"] else ("[", "]"))
        text = "<br/>".join(_escape(line) for line in (title_of(box), *facts(box)))
        drawn = f'{keys[box["id"]]}{left}"{text}"{right}:::{paint_of(box)}'
        places.setdefault(where_of(box), []).append(drawn)
    lines = ["flowchart LR"]
    for index, (place, here) in enumerate(places.items()):
        inside = [f"    {drawn}" for drawn in here]
        lines += [f'  subgraph g{index}["{_escape(place)}"]', *inside, "  end"]
    lines += [_link(edge, keys) for edge in document["edges"]]
    pink = [str(i) for i, edge in enumerate(document["edges"]) if edge["kind"] == "message"]
    if pink:
        lines.append(f"  linkStyle {','.join(pink)} stroke:#db2777")
    lines += [f"  classDef {key} fill:{fill},stroke:{line}" for key, (fill, line) in PAINT.items()]
    return "\n".join(lines) + "\n"


def _link(edge: Json, keys: dict[str, str]) -> str:
    source, target = keys[edge["from"]], keys[edge["to"]]
    if edge["kind"] == "message":
        return f'  {source} -. "message" .-> {target}'
    if edge["kind"] == "queue":
        return f'  {source} -- "queue {_escape(edge["queue"])}" --> {target}'
    if edge["async"]:
        return f'  {source} -- "as ready" --> {target}'
    return f"  {source} --> {target}"


def _escape(text: str) -> str:
    """Mermaid reads #code; for a character, and everything else that it could take for syntax."""
    return "".join(f"#{ord(c)};" if c in '"#&<>`|\\;' or c < " " else c for c in text)
