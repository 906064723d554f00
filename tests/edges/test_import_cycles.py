"""The parts of the core import each other in one direction, for types and in functions as well."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import rillflow

SRC = Path(rillflow.__file__).parent
CORE = ("graph", "flows", "ops", "scheduler", "engines")
"""packages of the core; `flows` and `ops` may be one or the other, or neither"""


def imported(path: Path) -> set[str]:
    """The modules of ours that a file imports anywhere in it, without the name of the package."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            if node.module == "rillflow":
                found |= {f"rillflow.{alias.name}" for alias in node.names}
    return {name.removeprefix("rillflow.") for name in found if name.startswith("rillflow.")}


def test_packages_of_the_core_form_no_cycle() -> None:
    """A type-only import, or one in a function, is an import."""
    edges: dict[str, set[str]] = {package: set() for package in CORE}
    reasons: dict[tuple[str, str], list[str]] = {}
    for package in CORE:
        if package not in ("flows", "ops"):
            assert (SRC / package).is_dir(), f"there is no {SRC / package}"
        for path in sorted((SRC / package).rglob("*.py")):
            for module in imported(path):
                target = module.split(".")[0]
                if target in CORE and target != package:
                    edges[package].add(target)
                    where = f"{path.relative_to(SRC)} imports {module}"
                    reasons.setdefault((package, target), []).append(where)
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        cycle = error.args[1]
        pairs = [pair for pair in zip(cycle[1:], cycle[:-1], strict=True) if pair in reasons]
        pytest.fail("\n".join(f"{a} -> {b}: {reasons[a, b][0]}" for a, b in pairs))
