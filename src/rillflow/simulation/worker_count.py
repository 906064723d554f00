"""The same flow with another number of actors: a pure function from graph to graph."""

from __future__ import annotations

import copy
import types
from dataclasses import replace
from typing import Any

from rillflow.errors import BuildError
from rillflow.flows.parallel import count_shards
from rillflow.graph.handles import Actors
from rillflow.graph.node import Node
from rillflow.graph.program import Program


def resized(root: Node, group: Actors, count: int) -> Node:
    """The graph behind `root` with `count` actors in `group`; the graph given is left as it is.

    The group keeps its uid, so handles on it stay valid. Operators that hold the group itself are
    given the new one: what they send to "all workers" reaches all of them.
    """
    other = replace(group, count=count)
    made: dict[Node, Node] = {}
    for node in Program(root).nodes:
        inputs = tuple(made[input_] for input_ in node.inputs)
        options = {key: _swapped(value, other) for key, value in node.options.items()}
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        if node.kind == "route" and not same and node["per_shard"]:
            helpers = count_shards(inputs[0]) * node["per_shard"]
            options["actors"] = replace(node["actors"], count=helpers)
        if node.kind == "shards":
            _require_shards(node, inputs)
        if same and all(options[key] is node.options[key] for key in options):
            made[node] = node
        else:
            made[node] = replace(node, inputs=inputs, options=options)
    return made[root]


def source_group(root: Node, group: Actors | None) -> Actors:
    """The group of source actors whose number is to vary: the one given, or the only one."""
    nodes = [node for node in Program(root).nodes if node.kind == "actors"]
    sources: dict[str, Actors] = {node["actors"].uid: node["actors"] for node in nodes}
    if group is not None:
        if group.uid not in sources:
            raise BuildError(f"simulate: {group!r} is not a source of this flow.")
        return sources[group.uid]
    if len(sources) != 1:
        names = sorted(one.name for one in sources.values())
        raise BuildError(
            f"simulate: this flow has {len(sources)} groups of source actors, {names}; "
            "say with group= which one is to have another number of actors."
        )
    return next(iter(sources.values()))


def _require_shards(node: Node, inputs: tuple[Node, ...]) -> None:
    keep = node["keep"]
    there = sum(count_shards(input_) for input_ in inputs)
    if keep is not None and max(keep) >= there:
        raise BuildError(
            f"simulate: {node.label!r} needs at least {max(keep) + 1} shards, and with so few "
            f"actors there are {there}. Ask for more workers."
        )


def _swapped(value: Any, other: Actors) -> Any:
    """An option of a node with the new group in place of the old, also inside a callable."""
    if isinstance(value, Actors):
        return other if value.uid == other.uid else value
    if isinstance(value, types.FunctionType):
        return _swapped_in_function(value, other)
    attributes = getattr(value, "__dict__", None)
    if not callable(value) or isinstance(value, type) or not isinstance(attributes, dict):
        return value
    if not any(_is(held, other) for held in attributes.values()):
        return value
    twin = copy.copy(value)
    for name, held in attributes.items():
        if _is(held, other):
            twin.__dict__[name] = other
    return twin


def _swapped_in_function(fn: types.FunctionType, other: Actors) -> types.FunctionType:
    cells = list(fn.__closure__ or ())
    found = [i for i, cell in enumerate(cells) if _is(_content(cell), other)]
    if not found:
        return fn
    for i in found:
        cells[i] = types.CellType(other)
    twin = types.FunctionType(
        fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells)
    )
    twin.__kwdefaults__ = fn.__kwdefaults__
    twin.__annotations__ = fn.__annotations__
    twin.__module__, twin.__qualname__ = fn.__module__, fn.__qualname__
    twin.__dict__.update(fn.__dict__)
    return twin


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is not bound yet
        return None


def _is(value: Any, group: Actors) -> bool:
    return isinstance(value, Actors) and value.uid == group.uid
