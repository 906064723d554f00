"""The dataflow in the form that TensorBoard's graph tab draws."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from rillflow.pictures.labels import facts, title_of, where_of

Json = dict[str, Any]


def graph_def(document: Json) -> Any:
    """A `GraphDef`: one node per operator, in a box for each place where operators run.

    Messages, such as weights on their way to the workers, are drawn as TensorBoard's control edges
    (dotted); the place is the device, so that "color: device" shows who works where.
    """
    from tensorboard.compat.proto import graph_pb2, versions_pb2

    names = _names(document["nodes"])
    inputs: dict[str, list[str]] = defaultdict(list)
    for edge in document["edges"]:
        if edge["from"] in names and edge["to"] in names:
            mark = "" if edge["kind"] == "data" else "^"
            inputs[edge["to"]].append(mark + names[edge["from"]])
    nodes = [_node(box, names[box["id"]], inputs[box["id"]]) for box in document["nodes"]]
    return graph_pb2.GraphDef(node=nodes, versions=versions_pb2.VersionDef(producer=22))


def _node(box: Json, name: str, inputs: list[str]) -> Any:
    from tensorboard.compat.proto import attr_value_pb2, node_def_pb2

    # TensorBoard reads control edges after all others
    ordered = sorted(dict.fromkeys(inputs), key=lambda source: source.startswith("^"))
    node = node_def_pb2.NodeDef(
        name=name, op=title_of(box), device=f"/job:{_place(box)}", input=ordered
    )
    told = {"where": where_of(box), "what": "; ".join(facts(box))}
    for key, text in told.items():
        if text:
            node.attr[key].CopyFrom(attr_value_pb2.AttrValue(s=text.encode()))
    return node


def _names(boxes: list[Json]) -> dict[str, str]:
    """Names that TensorBoard can take apart: place/operator, each once."""
    taken: set[str] = set()
    names = {}
    for box in boxes:
        plain = re.sub(r"[^A-Za-z0-9_.\-]+", "_", box["id"]).strip("_.-") or "operator"
        wanted = name = f"{_place(box)}/{plain}"
        number = 2
        while name in taken:
            name, number = f"{wanted}_{number}", number + 1
        taken.add(name)
        names[box["id"]] = name
    return names


def _place(box: Json) -> str:
    """The group whose actors run it, or the driver."""
    if box["where"] == "driver" or not box["groups"]:
        return "driver"
    return re.sub(r"[^A-Za-z0-9_.\-]+", "_", box["groups"][0])
