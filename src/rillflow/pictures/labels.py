"""What is written on a box, and its colours: the same in every kind of picture."""

from __future__ import annotations

from rillflow.pictures.graph_json import Json

_WHEN_FULL = {
    "wait": "then waits",
    "drop_newest": "then drops the newest",
    "drop_oldest": "then drops the oldest",
}
TIMES = "\u00d7"
PAINT = {
    "actors": ("#e6effb", "#3b6fb5"),
    "driver": ("#f3f1ec", "#857b6a"),
    "background": ("#e5f4e8", "#3c8a50"),
    "queue": ("#fdf3d3", "#b7891f"),
}
"""Fill and outline of a box, by what it is."""


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
        return [f"as ready, at most {count_of(box['num_async'], 'open request')} per shard"]
    if kind == "split":
        apart = count_of(box["buffer"], "item")
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


def paint_of(box: Json) -> str:
    """Which entry of PAINT a box takes."""
    return box["kind"] if box["kind"] in ("queue", "background") else str(box["where"])


def count_of(number: int, noun: str) -> str:
    """A number of things in words."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
