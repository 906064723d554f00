"""A flow as plain data: the one schema every picture is made from.

Boxes are the operators of the flow under their names in the program (the ports of a split are edges
of it), and what only edges lead to: a queue, a background operator, a group of actors that is sent
messages but makes no items.
"""

from __future__ import annotations

from typing import Any

from rillflow.callables import label_of
from rillflow.graph.captured_actors import captured_groups
from rillflow.graph.handles import Actors, Background, Queue
from rillflow.graph.node import Node
from rillflow.graph.program import Program

Json = dict[str, Any]


def to_json(node: Node) -> Json:
    """Everything there is to see of a flow: `nodes`, `edges`, `groups`, `queues`, `backgrounds`."""
    return _Schema(Program(node)).document()


class _Schema:
    """Collects the boxes and edges of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes: list[Json] = []
        self.edges: list[Json] = []
        self.ids: dict[object, str] = {}
        """the id of a box, by its node or by the uid of its handle"""
        self.taken: set[str] = set()
        self.owners: dict[Node, list[str]] = {}
        """for each shard of a node, the group of its actor"""
        self.sources: dict[str, list[str]] = {}
        """for each group's uid, the operators that read it"""
        names: set[str] = set()
        self.queue_names = {queue.uid: _fresh(queue.name, names) for queue in program.queues}

    def document(self) -> Json:
        """The whole, in an order that depends on nothing but the flow."""
        for node in self.program.nodes:
            if node.kind == "port":
                self.ids[node] = self.ids[node.inputs[0]]
            else:
                self._operator(node)
        for background in self.program.backgrounds:
            self._background(background)
        for queue in self.program.queues:
            self._queue(queue)
        for node in self.program.nodes:
            self._messages(node)
        return {
            "output": self.ids[self.program.root],
            "nodes": self.nodes,
            "edges": self.edges,
            "groups": [self._group(group) for group in self.program.groups],
            "queues": [self._queue_entry(queue) for queue in self.program.queues],
            "backgrounds": [self._background_entry(b) for b in self.program.backgrounds],
        }

    def _box(self, key: object, wanted: str, **fields: Any) -> str:
        self.ids[key] = _fresh(wanted, self.taken)
        self.nodes.append({"id": self.ids[key], **fields})
        return self.ids[key]

    def _edge(self, source: str, target: str, kind: str, asynchronous: bool, **more: Any) -> None:
        edge = {"from": source, "to": target, "kind": kind, "async": asynchronous, **more}
        self.edges.append(edge)

    def _operator(self, node: Node) -> None:
        owners = self._owners(node)
        ident = self._box(
            node,
            self.program.names[node],
            label=node.label,
            name=node.name,
            kind=node.kind,
            where="actors" if node.parallel else "driver",
            parallel=node.parallel,
            shards=len(owners) or None,
            groups=list(dict.fromkeys(owners)),
            **self._details(node),
        )
        if node.kind in ("actors", "route"):
            self.sources.setdefault(node["actors"].uid, []).append(ident)
        for index, input_ in enumerate(node.inputs):
            more: Json = {"port": input_["index"]} if input_.kind == "port" else {}
            if node.kind == "union" and index not in node["outputs"]:
                more["output"] = False
            as_ready = node.kind == "gather" and node["mode"] == "async"
            self._edge(self.ids[input_], ident, "data", as_ready, **more)

    def _owners(self, node: Node) -> list[str]:
        owners: list[str] = []
        if node.kind in ("actors", "route"):
            group = node["actors"]
            owners = [self.program.group_names[group.uid]] * len(group)
        elif node.kind == "shards":
            owners = [owner for input_ in node.inputs for owner in self.owners[input_]]
            if node["keep"] is not None:
                owners = [owners[i] for i in node["keep"]]
        elif node.parallel or node.kind == "gather":
            owners = self.owners[node.inputs[0]]
        self.owners[node] = owners
        return owners

    def _details(self, node: Node) -> Json:
        kind = node.kind
        if kind == "actors":
            return {"group": self.owners[node][0], "method": node["method"]}
        if kind == "route":
            return {"group": self.owners[node][0], "per_shard": node["per_shard"]}
        if kind == "transform":
            fn = node["fn"]
            sized = {"n": node["n"]} if "n" in node.options else {}
            return {"op": node["op"], "fn": None if fn is None else label_of(fn), **sized}
        if kind == "gather":
            barrier = node["mode"] == "sync"
            return {"mode": node["mode"], "num_async": node["num_async"], "barrier": barrier}
        if kind == "split":
            return {"branches": node["n"], "buffer": node["buffer"]}
        if kind == "union":
            units = node["units"]
            return {
                "mode": node["mode"],
                "weights": [_plain(w) for w in node["weights"]],
                "outputs": list(node["outputs"]),
                "units": None if units is None else label_of(units),
            }
        return self._queue_details(node["queue"]) if "queue" in node.options else {}

    def _queue_details(self, queue: Queue[Any]) -> Json:
        name = self.queue_names[queue.uid]
        return {"queue": name, "capacity": queue.capacity, "when_full": queue.when_full}

    def _background(self, background: Background[Any, Any]) -> None:
        self._box(
            background.uid,
            f"background({background.name})",
            label=background.name,
            name=None,
            kind="background",
            where=background.actors.placement,
            parallel=False,
            shards=None,
            groups=[self.program.group_names[background.actors.uid]],
            reads=self.queue_names[background.inqueue.uid],
            # it stops when its out-queue is full, whatever the queue does with other producers
            **{**self._queue_details(background.outqueue), "when_full": "wait"},
        )

    def _queue(self, queue: Queue[Any]) -> None:
        """The edges through a queue; a box of its own where no background operator stands at it."""
        uid, backgrounds = queue.uid, self.program.backgrounds
        ends: dict[str, list[str]] = {"enqueue": [], "dequeue": []}
        for node in self.program.nodes:
            if node.kind in ends and node["queue"].uid == uid:
                ends[node.kind].append(self.ids[node])
        fillers = [self.ids[b.uid] for b in backgrounds if b.outqueue.uid == uid]
        readers = [self.ids[b.uid] for b in backgrounds if b.inqueue.uid == uid]
        producers, consumers = ends["enqueue"] + fillers, ends["dequeue"] + readers
        name = self.queue_names[uid]
        if not fillers and not readers:
            details = self._queue_details(queue)
            box = self._box(
                uid, f"queue({name})", label=queue.name, name=None, kind="queue", where="driver",
                parallel=False, shards=None, groups=[], **details,
            )  # fmt: skip
            pairs = [(one, box) for one in producers] + [(box, one) for one in consumers]
        else:
            pairs = [(one, other) for one in producers for other in consumers]
        for source, target in pairs:
            self._edge(source, target, "queue", True, queue=name)

    def _messages(self, node: Node) -> None:
        """Edges to the actors an operator may send messages to; only the driver can send."""
        if node.parallel or node.kind == "port":
            return
        captured = captured_groups(node.options.get("fn"))
        for group in {group.uid: group for group in captured}.values():
            if group.uid not in self.sources:
                name = self.program.group_names[group.uid]
                box = self._box(
                    group.uid, f"actors({name})", label=name, name=None, kind="group",
                    where="actors", parallel=True, shards=len(group), groups=[name],
                    **{"class": label_of(group.factory)},
                )  # fmt: skip
                self.sources[group.uid] = [box]
            for target in self.sources[group.uid]:
                self._edge(self.ids[node], target, "message", True)

    def _group(self, group: Actors) -> Json:
        how = group.policy
        failure = None if how is None else {"on_error": how.on_error, "on_lost": how.on_lost}
        return {
            "name": self.program.group_names[group.uid],
            "count": len(group),
            "placement": group.placement,
            "class": label_of(group.factory),
            "resources": dict(group.resources),
            "on_failure": failure,
        }

    def _queue_entry(self, queue: Queue[Any]) -> Json:
        details = self._queue_details(queue)
        ends = [b for b in self.program.backgrounds if queue in (b.inqueue, b.outqueue)]
        return {
            "name": details.pop("queue"),
            **details,
            "backgrounds": [self.ids[background.uid] for background in ends],
        }

    def _background_entry(self, background: Background[Any, Any]) -> Json:
        return {
            "id": self.ids[background.uid],
            "name": background.name,
            "fn": label_of(background.fn),
            "placement": background.actors.placement,
            "inqueue": self.queue_names[background.inqueue.uid],
            "outqueue": self.queue_names[background.outqueue.uid],
        }


def _plain(weight: float) -> float | int:
    return int(weight) if float(weight).is_integer() else weight


def _fresh(wanted: str, taken: set[str]) -> str:
    text, number = wanted, 2
    while text in taken:
        text, number = f"{wanted}#{number}", number + 1
    taken.add(text)
    return text
