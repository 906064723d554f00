"""Who may import whom. One glance at this table is the architecture."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "rillflow"

MAY_IMPORT = {
    "errors": set(),
    "types": {"errors"},
    "seeding": set(),
    "named_vector": set(),
    "_safe_path": set(),
    "bounded": set(),
    "consent": {"envs"},
    "graph": {"errors", "types"},
    "engines": {"errors", "types", "graph"},
    "scheduler": {"errors", "types", "seeding", "graph", "engines"},
    "flows": {"errors", "types", "graph", "engines", "scheduler"},
    "losses": {"errors"},
    "replay": {"errors"},
    "envs": {"errors"},
    "models": {"errors", "losses", "policies"},
    "policies": {"errors", "bounded", "models", "named_vector"},
    "batch": {"errors"},
    "analytic": {"errors", "batch", "models", "named_vector", "policies"},
    "rl": {
        "errors",
        "types",
        "graph",
        "flows",
        "batch",
        "envs",
        "policies",
        "replay",
        "losses",
        "analytic",
        "actors",
        "seeding",
    },
    "actors": {"errors", "types", "batch", "envs", "policies", "replay", "rl"},
    "algorithms": {
        "errors",
        "types",
        "graph",
        "flows",
        "batch",
        "rl",
        "actors",
        "losses",
        "analytic",
        "replay",
    },
    "paper": {"graph", "flows", "rl", "actors", "algorithms"},
    "checkpoint": {"errors", "types", "batch", "named_vector", "rl.results"},
    "trained": {
        "errors",
        "bounded",
        "consent",
        "scheduler",
        "batch",
        "rl",
        "algorithms",
        "envs",
        "policies",
    },
    "results": {"__version__", "errors", "bounded", "envs", "policies", "trained"},
    "simulation": {"errors", "types", "seeding", "graph", "engines", "scheduler", "flows"},
    "testing": {"errors", "types", "graph", "flows", "scheduler", "engines"},
    "status": {"scheduler", "engines"},
    "web": {"errors", "graph"},
    "runs": {
        "__version__",
        "bounded",
        "errors",
        "graph",
        "engines",
        "scheduler",
        "flows",
        "rl",
        "actors",
        "algorithms",
        "envs",
        "trained",
        "checkpoint",
        "status",
    },
    "training": {"errors", "engines", "runs", "trained"},
    "cli": {
        "__version__",
        "errors",
        "bounded",
        "consent",
        "checkpoint",
        "policies",
        "graph",
        "engines",
        "scheduler",
        "flows",
        "rl",
        "algorithms",
        "envs",
        "trained",
        "simulation",
        "results",
        "status",
        "runs",
        "web",
        "trainer",
    },
    "trainer": {"consent", "engines", "errors", "scheduler", "rl", "runs"},
    "__main__": {"cli"},
}
"""what a part may import, anywhere in its modules and for types too, besides itself"""

CORE = ("graph", "engines", "scheduler", "flows")
"""from the bottom to the top"""


def imports(path: Path) -> list[str]:
    """Modules of ours that a file imports: at its top, inside functions, and for types."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rillflow"):
            inner = node.module.removeprefix("rillflow").lstrip(".")
            found += [inner] if inner else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("rillflow")]
            found += [name.removeprefix("rillflow").lstrip(".") for name in names]
    return found


FILES = [path for path in sorted(SRC.rglob("*.py")) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_a_layer_imports_only_what_is_below_it(path: Path) -> None:
    """No layer reaches up, and none goes around another."""
    layer = path.relative_to(SRC).parts[0].removesuffix(".py")
    assert layer in MAY_IMPORT, f"give the new part {layer!r} its line in the table"
    if layer == "testing":
        return  # tests of everything may use everything
    allowed = MAY_IMPORT[layer] | {layer}
    for module in imports(path):
        fine = module.split(".")[0] in allowed or module in allowed
        assert fine, f"{path.relative_to(SRC)} imports rillflow.{module}"


def test_the_core_has_no_cycles() -> None:
    """Each package of the core knows only those below it, type-only and lazy imports included."""
    for above, package in enumerate(CORE):
        for path in (SRC / package).glob("*.py"):
            reached = {module.split(".")[0] for module in imports(path)}
            assert not reached & set(CORE[above + 1 :]), path.relative_to(SRC)


def test_only_the_ray_engine_imports_ray() -> None:
    """Ray is optional: one file knows it."""
    for path in SRC.rglob("*.py"):
        if path.name == "ray.py":
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not any(alias.name.split(".")[0] == "ray" for alias in node.names), path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] != "ray", path


def test_files_keep_to_one_concept() -> None:
    """A file above 400 lines asks to be split."""
    long = {str(p.relative_to(SRC)): n for p in SRC.rglob("*.py")
            if (n := p.read_text().count("\n")) > 400}  # fmt: skip
    assert not long
