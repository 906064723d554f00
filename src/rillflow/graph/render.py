"""Pictures of a flow made of characters: the text tree and Mermaid; SVG is in `svg.py`."""

from __future__ import annotations

from collections.abc import Iterator

from rillflow.graph.node import Node
from rillflow.graph.schema import Json, to_json

_WHEN_FULL = {
    "wait": "then waits",
    "drop_newest": "then drops the newest",
    "drop_oldest": "then drops the oldest",
}
TIMES = "\u00d7"
_LONGEST_LABEL = 56
_DEEPEST_INDENT = 30


def to_text(node: Node) -> str:
    """A flow as a tree: the output on top, what it reads below; then where it runs, and how."""
    document = to_json(node)
    lines = list(_tree(document))
    first = max(len(text) for text, _, _ in lines) + 2
    second = max((len(where) for _, where, about in lines if about), default=0) + 2
    table = [f"{text:<{first}}{where:<{second}}{about}".rstrip() for text, where, about in lines]
    return "\n".join([_totals(document), "", *table])


def _tree(document: Json) -> Iterator[tuple[str, str, str]]:
    """Lines as (tree and label, where, about); with a stack, for chains have any length."""
    boxes = {box["id"]: box for box in document["nodes"]}
    feeds, sends = _feeds(document), _sends(document)
    stack = [(document["output"], "", "", "")]
    shown: set[str] = set()
    while stack:
        ident, port, lead, branch = stack.pop()
        box = boxes[ident]
        text = lead + branch + _shorten(title_of(box) + port)
        if ident in shown:
            yield text, "↑ shown above", ""
            continue
        shown.add(ident)
        yield text, where_of(box), "; ".join([*facts(box), *sends.get(ident, ())])
        below = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        children = feeds[ident]
        if len(children) == 1 and len(below) > _DEEPEST_INDENT and branch == "└─ ":
            below = lead  # a long chain goes on straight down
        last = len(children) - 1
        for index in range(last, -1, -1):
            child, port = children[index]
            stack.append((child, port, below, "└─ " if index == last else "├─ "))


def _feeds(document: Json) -> dict[str, list[tuple[str, str]]]:
    """What each box reads, and through which port; a queue without a background has no line."""
    feeds: dict[str, list[tuple[str, str]]] = {box["id"]: [] for box in document["nodes"]}
    for edge in document["edges"]:
        if edge["kind"] != "message":
            port = f"[{edge['port']}]" if "port" in edge else ""
            feeds[edge["to"]].append((edge["from"], port))
    queues = {box["id"] for box in document["nodes"] if box["kind"] == "queue"}
    return {
        ident: [one for read in reads for one in (feeds[read[0]] if read[0] in queues else [read])]
        for ident, reads in feeds.items()
    }


def _sends(document: Json) -> dict[str, list[str]]:
    boxes = {box["id"]: box for box in document["nodes"]}
    targets: dict[str, dict[str, None]] = {}
    for edge in document["edges"]:
        if edge["kind"] == "message":
            targets.setdefault(edge["from"], {})[boxes[edge["to"]]["groups"][0]] = None
    return {ident: ["sends messages to " + ", ".join(names)] for ident, names in targets.items()}


def _totals(document: Json) -> str:
    groups = document["groups"]
    operators = sum(box["kind"] not in ("queue", "group") for box in document["nodes"])
    head = _count(operators, "operator")
    if not groups:
        return head
    listed = [
        f"{group['count']} {TIMES} {group['name']}"
        + (f" ({group['placement']})" if group["placement"] != "process" else "")
        for group in groups[:6]
    ] + (["..."] if len(groups) > 6 else [])
    actors = _count(sum(group["count"] for group in groups), "actor")
    return f"{head}, {actors} in {_count(len(groups), 'group')}: {', '.join(listed)}"


def title_of(box: Json) -> str:
    """What a box is called."""
    return f"{box['name']}: {box['label']}" if box["name"] else str(box["id"])


def where_of(box: Json) -> str:
    """Where a box runs, and how many times."""
    if not box["parallel"]:
        return str(box["where"])
    return f"{box['shards']} {TIMES} {' + '.join(box['groups'])}"


def facts(box: Json) -> list[str]:
    """What is worth saying of a box beyond its label, in words."""
    kind = box["kind"]
    if kind == "gather" and box["barrier"]:
        return ["barrier: next round waits for everything downstream"]
    if kind == "gather":
        return [f"as ready, at most {_count(box['num_async'], 'open request')} per shard"]
    if kind == "split":
        apart = _count(box["buffer"], "item")
        return [f"each item to {box['branches']} branches, at most {apart} apart"]
    if kind == "union":
        return _union_facts(box)
    if kind in ("enqueue", "queue", "background"):
        return [f"queue {box['queue']!r} holds {box['capacity']}, {_WHEN_FULL[box['when_full']]}"]
    if kind == "route" and box["per_shard"]:
        return [f"{box['per_shard']} helpers per shard"]
    if kind == "route":
        return ["item k of a shard to helper k mod n"]
    return []


def _union_facts(box: Json) -> list[str]:
    turns = "whichever is ready"
    if box["mode"] == "round_robin":
        turns = "turns " + ":".join(str(weight) for weight in box["weights"])
    if box["units"] is not None:
        turns += f" in units of {box['units']}"
    outputs = box["outputs"]
    if len(set(outputs)) == len(box["weights"]):
        return [turns]
    return [turns, f"gives {outputs}, the rest run for their effects"]


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


PAINT = {
    "actors": ("#e6effb", "#3b6fb5"),
    "driver": ("#f3f1ec", "#857b6a"),
    "background": ("#e5f4e8", "#3c8a50"),
    "queue": ("#fdf3d3", "#b7891f"),
}
"""Fill and outline of a box, by what it is."""
_SHAPES = {"queue": ("[(", ")]"), "background": ("[[", "]]"), "group": ("([", "])")}


def paint_of(box: Json) -> str:
    """Which entry of PAINT a box takes."""
    return box["kind"] if box["kind"] in ("queue", "background") else str(box["where"])


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


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
