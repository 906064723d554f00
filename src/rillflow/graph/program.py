"""A flow as a whole: its nodes in order, each with a unique, stable, readable name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rillflow.graph.captured_actors import captured_groups
from rillflow.graph.handles import ActorHandle, Actors, Background, Queue
from rillflow.graph.node import Node


@dataclass(frozen=True)
class Shard:
    """One shard of a parallel flow: an actor, the method that makes items, transforms behind it."""

    actor: ActorHandle
    method: str
    source: Node
    chain: tuple[Node, ...]


class Program:
    """Everything behind one output node, found by walking the graph; building it starts nothing."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.nodes = tuple(_ordered(root))

    @cached_property
    def names(self) -> dict[Node, str]:
        """A unique name per node: the user's, or the label, numbered where it repeats."""
        taken = {node.name for node in self.nodes if node.name is not None}
        names: dict[Node, str] = {}
        for node in self.nodes:
            names[node] = node.name or _fresh(node.label, taken)
            taken.add(names[node])
        return names

    @cached_property
    def groups(self) -> tuple[Actors, ...]:
        """Every group of actors, in order of first use; those of background operators last."""
        found: dict[str, Actors] = {}
        for node in self.nodes:
            group = node.options.get("actors")
            if group is not None:
                found.setdefault(group.uid, group)
            for captured in captured_groups(node.options.get("fn")):
                found.setdefault(captured.uid, captured)
        for background in self.backgrounds:
            for captured in captured_groups(background.fn):
                found.setdefault(captured.uid, captured)
            found.setdefault(background.actors.uid, background.actors)
        return tuple(found.values())

    @cached_property
    def group_names(self) -> dict[str, str]:
        """A unique name per group of actors, by the group's uid."""
        taken: set[str] = set()
        names = {}
        for group in self.groups:
            names[group.uid] = _fresh(group.name, taken)
            taken.add(names[group.uid])
        return names

    @cached_property
    def queues(self) -> tuple[Queue[object], ...]:
        """Every queue, including both of each background operator."""
        return self._queues_and_backgrounds[0]

    @cached_property
    def queue_names(self) -> dict[str, str]:
        """A unique name per queue, by the queue's uid."""
        taken: set[str] = set()
        names = {}
        for queue in self.queues:
            names[queue.uid] = _fresh(queue.name, taken)
            taken.add(names[queue.uid])
        return names

    @cached_property
    def backgrounds(self) -> tuple[Background[Any, Any], ...]:
        """Every background operator, also those that are reached only through queues of others."""
        return self._queues_and_backgrounds[1]

    @cached_property
    def _queues_and_backgrounds(
        self,
    ) -> tuple[tuple[Queue[object], ...], tuple[Background[Any, Any], ...]]:
        queues: dict[str, Queue[object]] = {}
        backgrounds: dict[str, Background[Any, Any]] = {}
        found = [node["queue"] for node in self.nodes if "queue" in node.options]
        while found:
            queue = found.pop(0)
            queues.setdefault(queue.uid, queue)
            for background in queue.ends:
                if background.uid not in backgrounds:
                    backgrounds[background.uid] = background
                    found += [background.inqueue, background.outqueue]
        return tuple(queues.values()), tuple(backgrounds.values())

    @cached_property
    def consumers(self) -> dict[Node, list[Node]]:
        """Which nodes read each node."""
        readers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for input_ in node.inputs:
                readers[input_].append(node)
        return readers

    def actor_name(self, handle: ActorHandle) -> str:
        """The name of an actor while the program runs."""
        return f"{self.group_names[handle.group.uid]}-{handle.index}"

    @cached_property
    def places(self) -> dict[Node, int]:
        """How many shards each parallel node has, without looking at what they are made of."""
        counts: dict[Node, int] = {}
        for node in self.nodes:
            if not node.parallel:
                continue
            if node.kind == "transform":
                counts[node] = counts[node.inputs[0]]
            elif node.kind == "shards":
                keep = node["keep"]
                every = sum(counts[input_] for input_ in node.inputs)
                counts[node] = every if keep is None else len(keep)
            else:
                counts[node] = len(node["actors"])
        return counts

    def shards(self, node: Node) -> list[Shard]:
        """The shards behind a parallel node."""
        behind: list[Node] = []
        while node.kind == "transform":
            behind.append(node)
            node = node.inputs[0]
        chain = tuple(reversed(behind))
        if node.kind == "shards":
            every = [shard for input_ in node.inputs for shard in self.shards(input_)]
            kept = every if node["keep"] is None else [every[i] for i in node["keep"]]
            return [Shard(s.actor, s.method, s.source, (*s.chain, *chain)) for s in kept]
        method = node.options.get("method", "fn")
        return [Shard(actor, method, node, chain) for actor in node["actors"]]


def _ordered(root: Node) -> Iterator[Node]:
    """Inputs before their readers, left to right, each once; without recursion."""
    done: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if node in done:
            continue
        if expanded:
            done.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend((input_, False) for input_ in reversed(node.inputs))


def _fresh(label: str, taken: set[str | None] | set[str]) -> str:
    if label not in taken:
        return label
    number = 2
    while f"{label}#{number}" in taken:
        number += 1
    return f"{label}#{number}"
