"""A flow as a tree of text: what `explain()` prints."""

from __future__ import annotations

from collections.abc import Iterator

from rillflow.graph.node import Node
from rillflow.pictures.graph_json import Json, to_json
from rillflow.pictures.labels import TIMES, count_of, facts, title_of, where_of

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
    head = count_of(operators, "operator")
    if not groups:
        return head
    listed = [
        f"{group['count']} {TIMES} {group['name']}"
        + (f" ({group['placement']})" if group["placement"] != "process" else "")
        for group in groups[:6]
    ] + (["..."] if len(groups) > 6 else [])
    actors = count_of(sum(group["count"] for group in groups), "actor")
    return f"{head}, {actors} in {count_of(len(groups), 'group')}: {', '.join(listed)}"


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
