"""Who may import whom. One glance at this table is the architecture."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "rillflow"

MAY_IMPORT = {
    "errors": set(),
    "images": set(),
    "run_labels": set(),
    "listening": {"errors"},
    "types": {"errors"},
    "seeding": set(),
    "callables": set(),
    # a table of names, imported when somebody uses an old one
    "deprecated": {"learning", "rl"},
    "arguments": {"errors"},
    "files": {"errors"},
    # the dataflow core
    "graph": {"errors", "arguments", "types", "callables"},
    "pictures": {"errors", "types", "callables", "graph"},
    "engines": {"errors", "types", "callables", "graph"},
    "scheduler": {"errors", "types", "seeding", "graph", "pictures", "engines"},
    "flows": {"errors", "types", "callables", "graph", "pictures", "engines", "scheduler"},
    "simulation": {
        "errors",
        "arguments",
        "types",
        "seeding",
        "graph",
        "engines",
        "scheduler",
        "flows",
    },
    # reinforcement learning without the core
    "envs": {"errors", "arguments", "images"},
    "safety": {"envs"},
    "experience": {"errors", "envs"},
    "datasets": {"errors", "safety", "envs", "experience"},
    "policies": {
        "errors",
        "images",
        "safety",
        "envs.finite",
        "envs.layout",
        "envs.encoded_box",
        "envs.image_box",
        "envs.mixed_box",
        "experience",
    },
    "learning": {"errors", "images", "callables", "envs", "experience", "policies"},
    # both together
    "rl": {
        "errors",
        "types",
        "seeding",
        "callables",
        "graph",
        "flows",
        "images",
        "envs",
        "experience",
        "datasets",
        "policies",
        "learning",
    },
    "algorithms": {"errors", "types", "flows", "experience", "policies", "learning", "rl"},
    "paper": {"graph", "flows", "learning", "rl", "algorithms"},
    # the product
    "checkpoint": {"errors", "arguments", "types", "experience", "learning.results"},
    "results": {
        "__version__",
        "errors",
        "run_labels",
        "arguments",
        "files",
        "safety",
        "scheduler",
        "envs",
        "experience",
        "datasets",
        "policies",
        "learning",
        "algorithms",
    },
    "runs": {
        "__version__",
        "errors",
        "callables",
        "files",
        "safety",
        "graph",
        "pictures",
        "engines",
        "scheduler",
        "flows",
        "envs",
        "policies",
        "learning",
        "rl",
        "algorithms",
        "checkpoint",
        "results",
        "web",  # `view=True` serves it
    },
    "web": {"errors", "files", "run_labels", "listening", "pictures"},
    "serving": {"errors", "files", "listening", "safety", "envs", "policies", "results"},
    "cli": {
        "__version__",
        "errors",
        "run_labels",
        "arguments",
        "files",
        "safety",
        "engines",
        "scheduler",
        "flows",
        "simulation",
        "envs",
        "policies",
        "learning",
        "rl",
        "algorithms",
        "checkpoint",
        "results",
        "runs",
        "serving",
        "web",
    },
    "__main__": {"cli"},
    "testing": {"errors", "types", "graph", "engines", "scheduler", "flows", "policies"},
}
"""what a part may import, anywhere in its modules and for types too, besides itself"""


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Modules of ours that a file imports: at its top, inside functions, for types, by a string."""
    return tuple(module for node in nodes(path) for module in _named(node))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Everything in a file that may import; each file is read once for all tests."""
    kinds = ast.Import | ast.ImportFrom | ast.Constant
    return tuple(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds))


def _named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        assert not node.level, f"line {node.lineno}: an import says its whole path"
        inner = _ours(node.module or "")
        return [alias.name for alias in node.names] if inner == "" else [inner] if inner else []
    if isinstance(node, ast.Import):
        return [inner for alias in node.names if (inner := _ours(alias.name))]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # for `import_module`
        inner = _ours(node.value) if _MODULE.fullmatch(node.value) else None
        return [inner] if inner and (SRC / inner.split(".")[0]).exists() else []
    return []


_MODULE = re.compile(r"rillflow(\.\w+)+")


def _ours(module: str) -> str | None:
    """A module without the leading `rillflow`; None if it is somebody else's."""
    first, _, inner = module.partition(".")
    return inner if first == "rillflow" else None


def part_of(path: Path) -> str:
    """The package, or the module beside the packages, that a file belongs to."""
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def cycle(reads: Mapping[str, Collection[str]]) -> list[str]:
    """Some parts of which each imports the next, and the last the first; empty if none do."""
    done: set[str] = set()

    def search(part: str, above: list[str]) -> list[str]:
        if part in above:
            return above[above.index(part) :]
        if part in done:
            return []
        for below in sorted(reads.get(part, ())):
            if found := search(below, [*above, part]):
                return found
        done.add(part)
        return []

    return next((found for part in sorted(reads) if (found := search(part, []))), [])


FILES = [path for path in sorted(SRC.rglob("*.py")) if path != SRC / "__init__.py"]
"""all but the face of the package, which imports everything for its users"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_a_layer_imports_only_what_is_below_it(path: Path) -> None:
    """No layer reaches up, and none goes around another."""
    layer = part_of(path)
    assert layer in MAY_IMPORT, f"give the new part {layer!r} its line in the table"
    if layer == "testing":
        return  # tests of everything may use everything
    allowed = MAY_IMPORT[layer] | {layer}
    for module in imports(path):
        fine = module.split(".")[0] in allowed or module in allowed
        assert fine, f"{path.relative_to(SRC)} imports rillflow.{module}"


def test_no_two_parts_import_each_other() -> None:
    """Parts can be read from the bottom to the top, type-only and lazy imports included."""
    reads: dict[str, set[str]] = {}
    for path in FILES:
        below = {module.split(".")[0] for module in imports(path)} - {part_of(path)}
        reads.setdefault(part_of(path), set()).update(below)
    assert not cycle(reads), " -> ".join(cycle(reads))


def test_the_table_has_no_cycles_and_no_lines_of_parts_that_are_gone() -> None:
    """What is allowed could be used, all of it at once."""
    table = {part: {one.split(".")[0] for one in below} for part, below in MAY_IMPORT.items()}
    assert not cycle(table), " -> ".join(cycle(table))
    assert set(MAY_IMPORT) == {part_of(path) for path in FILES}


def test_a_cycle_is_found_whatever_kind_of_import_closes_it(tmp_path: Path) -> None:
    kinds = (
        "from rillflow.graph.node import Node",
        "import rillflow.graph.node",
        "from rillflow import graph",
        "if TYPE_CHECKING:\n    from rillflow.graph.node import Node",
        "def f():\n    from rillflow.graph.node import Node",
        "import_module('rillflow.graph.node')",
    )
    for number, source in enumerate(kinds):
        file = tmp_path / f"kind_{number}.py"
        file.write_text(source)
        assert [module.split(".")[0] for module in imports(file)] == ["graph"], source
    found = cycle({"graph": {"flows", "errors"}, "flows": {"web"}, "web": {"graph"}})
    assert sorted(found) == ["flows", "graph", "web"]
    assert not cycle({"graph": {"errors"}, "flows": {"graph", "errors"}})


def test_only_the_ray_engine_imports_ray() -> None:
    """Ray is optional: one file knows it."""
    for path in SRC.rglob("*.py"):
        if path.name == "ray.py":
            continue
        for node in nodes(path):
            if isinstance(node, ast.Import):
                assert not any(alias.name.split(".")[0] == "ray" for alias in node.names), path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] != "ray", path


def test_files_keep_to_one_concept() -> None:
    """A file above 400 lines asks to be split."""
    long = {str(p.relative_to(SRC)): n for p in SRC.rglob("*.py")
            if (n := p.read_text().count("\n")) > 400}  # fmt: skip
    assert not long
