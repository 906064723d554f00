"""Who may import whom. One glance at this table is the architecture."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "rillflow"

MAY_IMPORT = {
    "errors": set(),
    "types": set(),
    "seeding": set(),
    "named_vector": set(),
    "_safe_path": set(),
    "bounded": set(),
    "consent": {"envs"},
    "graph": {"errors", "types"},
    "ops": {"errors", "types", "graph"},
    "scheduler": {"errors", "types", "seeding", "graph", "engines.base"},
    "engines": {"errors", "types", "seeding", "graph", "scheduler"},
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
        "ops",
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
        "ops",
        "batch",
        "rl",
        "actors",
        "losses",
        "analytic",
        "replay",
    },
    "paper": {"graph", "rl", "actors", "algorithms"},
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
    "simulation": {"errors", "types", "seeding", "graph", "engines", "scheduler"},
    "testing": {"errors", "types", "graph", "ops", "scheduler", "engines"},
    "status": {"scheduler", "engines"},
    "web": {"errors", "graph"},
    "runs": {
        "__version__",
        "errors",
        "graph",
        "engines",
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
    "trainer": {"engines", "rl", "runs"},
    "__main__": {"cli"},
}
"""what a part may import at the top of its modules, besides itself"""

TYPES_ONLY = {("graph", "engines"), ("graph", "ops"), ("scheduler", "engines")}
"""allowed under TYPE_CHECKING, or inside a function: `flow.run` has to reach a run somehow"""


def imports(path: Path) -> list[tuple[str, bool]]:
    """Modules of ours that a file imports, and whether only inside a function or for types."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rillflow"):
            inner = node.module.removeprefix("rillflow").lstrip(".")
            names = [inner] if inner else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name.removeprefix("rillflow").lstrip(".") for a in node.names
                     if a.name.startswith("rillflow")]  # fmt: skip
        found += [(name, id(node) not in top) for name in names]
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
    for module, deferred in imports(path):
        target = module.split(".")[0]
        fine = (
            target in allowed or module in allowed or (deferred and (layer, target) in TYPES_ONLY)
        )
        assert fine, f"{path.relative_to(SRC)} imports rillflow.{module}"


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
