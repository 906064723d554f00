"""A flow whose driver operators are recorded, or whose costly ones are replayed from that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.simulation.recorded_operators import (
    GroupNames,
    Recording,
    RecordingOperator,
    ReplayedOperator,
)

_ONE_FOR_ONE = ("for_each", "zip_with_source_actor")
"""transforms behind an operator that do not ask how large its result is"""


def recorded(root: Node, recordings: dict[str, Recording]) -> Node:
    """The same flow; what its operators in the driver do is noted in `recordings`."""
    program = Program(root)
    group_names = GroupNames(program)

    def record(node: Node) -> Node:
        recording = recordings.setdefault(program.names[node], Recording())
        return _with(
            node,
            RecordingOperator(node["fn"], bool(node.options.get("ctx")), recording, group_names),
        )

    return _rewritten(program, record, lambda node: True)


def replayed(root: Node, recordings: dict[str, Recording], costly: frozenset[str]) -> Node:
    """The same flow, with recordings in place of the costly operators."""
    program = Program(root)
    group_names = GroupNames(program)

    def replay(node: Node) -> Node:
        recording = recordings[program.names[node]]
        return _with(
            node,
            ReplayedOperator(node["fn"], bool(node.options.get("ctx")), recording, group_names),
        )

    return _rewritten(program, replay, lambda node: program.names[node] in costly)


def replaceable(root: Node, recordings: dict[str, Recording]) -> set[str]:
    """Operators whose deeds can be repeated without them.

    They were seen; they share nothing with others, which would miss what they leave there; and
    nobody behind them asks how large their results are.
    """
    program = Program(root)
    found = set()
    for node, name in program.names.items():
        recording = recordings.get(name)
        if recording is None or not recording.calls or node["op"] != "for_each":
            continue
        others = set().union(
            *(other.shared for other in recordings.values() if other is not recording)
        )
        if recording.shared.isdisjoint(others) and _only_passed_on(program, node):
            found.add(name)
    return found


def _only_passed_on(program: Program, node: Node) -> bool:
    for reader in program.consumers[node]:
        fine = reader.kind == "union" or (
            reader.kind == "transform" and reader["op"] in _ONE_FOR_ONE
        )
        if not fine or not _only_passed_on(program, reader):
            return False
    return True


def _with(node: Node, operator: object) -> Node:
    return replace(node, options={**node.options, "fn": operator, "ctx": True})


def _rewritten(
    program: Program, change: Callable[[Node], Node], wanted: Callable[[Node], bool]
) -> Node:
    """The graph with the wanted transforms of the driver changed; names stay as they are."""
    made: dict[Node, Node] = {}
    for node in program.nodes:
        inputs = tuple(made[input_] for input_ in node.inputs)
        new = node if inputs == node.inputs else replace(node, inputs=inputs)
        runs_here = node.kind == "transform" and not node.parallel
        if runs_here and node.options.get("fn") is not None and wanted(node):
            new = change(node)
            new = replace(new, inputs=inputs)
        made[node] = new
    return made[program.root]
