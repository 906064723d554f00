"""The flow of a rehearsal: its operators watched, or the costly ones played by understudies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.simulation.understudy import Cast, Script, Understudy, Watching

_ONE_FOR_ONE = ("for_each", "zip_with_source_actor")
"""transforms behind an operator that do not ask how large its result is"""


def watched(root: Node, scripts: dict[str, Script]) -> Node:
    """The same flow; what its operators in the driver do is noted in `scripts`."""
    program = Program(root)
    cast = Cast(program)

    def watch(node: Node) -> Node:
        script = scripts.setdefault(program.names[node], Script())
        return _with(node, Watching(node["fn"], bool(node.options.get("ctx")), script, cast))

    return _rewritten(program, watch, lambda node: True)


def played(root: Node, scripts: dict[str, Script], costly: frozenset[str]) -> Node:
    """The same flow, with understudies in place of the costly operators."""
    program = Program(root)
    cast = Cast(program)

    def play(node: Node) -> Node:
        script = scripts[program.names[node]]
        return _with(node, Understudy(node["fn"], bool(node.options.get("ctx")), script, cast))

    return _rewritten(program, play, lambda node: program.names[node] in costly)


def replaceable(root: Node, scripts: dict[str, Script]) -> set[str]:
    """Operators whose deeds can be repeated without them.

    They were seen; they share nothing with others, which would miss what they leave there; and
    nobody behind them asks how large their results are.
    """
    program = Program(root)
    found = set()
    for node, name in program.names.items():
        script = scripts.get(name)
        if script is None or not script.scenes or node["op"] != "for_each":
            continue
        others = set().union(*(other.shared for other in scripts.values() if other is not script))
        if script.shared.isdisjoint(others) and _only_passed_on(program, node):
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
