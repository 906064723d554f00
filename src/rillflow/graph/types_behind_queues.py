"""Types that go through queues: they are known when the whole program is, and not before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rillflow.errors import BuildError
from rillflow.graph.annotations import UNKNOWN, output_type
from rillflow.graph.neighbours import disagreement, either_of, list_of, passed_on
from rillflow.graph.node import Node
from rillflow.graph.program import Program


def types_behind_queues(program: Program) -> Iterator[str]:
    """What is taken from a queue is what was put on it."""
    if program.queues:
        yield from _Inference(program).problems()


class _Inference:
    """The types of all items of a program, found from its sources through its queues."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.queued: dict[str, Any] = {}
        self.types: dict[Node, Any] = {}

    def problems(self) -> Iterator[str]:
        """Each disagreement once, in the order of the program."""
        for _ in self.program.queues:  # what is known passes one queue a round
            list(self._walk())
            before, self.queued = self.queued, self._queues()
            if before == self.queued:
                break
        yield from self._walk()
        yield from self._backgrounds()

    def _walk(self) -> Iterator[str]:
        for node in self.program.nodes:
            try:
                self.types[node] = self._gives(node)
            except BuildError as error:
                self.types[node] = UNKNOWN
                yield str(error)

    def _gives(self, node: Node) -> Any:
        if node.parallel:
            return node.options.get("gives", UNKNOWN)  # no queue leads there
        given = [self.types[input_] for input_ in node.inputs]
        names = self.program.names
        match node.kind:
            case "dequeue":
                return self.queued.get(node["queue"].uid, node.options.get("gives", UNKNOWN))
            case "transform":
                return passed_on(
                    node["op"], node["fn"], given[0], names[node.inputs[0]], names[node]
                )
            case "gather":
                return list_of(given[0]) if node["mode"] == "sync" else given[0]
            case "union":
                return either_of(given[i] for i in node["outputs"])
            case "split" | "port" | "enqueue" | "admit" | "fresh":
                return given[0]
        return node.options.get("gives", UNKNOWN)

    def _queues(self) -> dict[str, Any]:
        """The type of what is on each queue: from the flows and the operators that fill it."""
        put: dict[str, list[Any]] = {queue.uid: [] for queue in self.program.queues}
        for node in self.program.nodes:
            if node.kind == "enqueue":
                put[node["queue"].uid].append(self.types[node])
        for background in self.program.backgrounds:
            taken = self.queued.get(background.inqueue.uid, UNKNOWN)
            put[background.outqueue.uid].append(output_type(background.fn, taken))
        return {uid: either_of(types) for uid, types in put.items()}

    def _backgrounds(self) -> Iterator[str]:
        for background in self.program.backgrounds:
            name = self.program.group_names[background.actors.uid]
            for node in self.program.nodes:
                if node.kind == "enqueue" and node["queue"] == background.inqueue:
                    producer = self.program.names[node.inputs[0]]
                    problem = disagreement(self.types[node], background.fn, producer, name)
                    if problem is not None:
                        yield problem
