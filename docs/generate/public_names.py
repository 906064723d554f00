"""What is public: the names that documentation and examples tell users to write.

    python -m docs.generate.public_names 0.2.0      at a release: write docs/releases/0.2.0.json

- names: of `rillflow`, `rillflow.paper`, and whatever a listing of a page or an example imports;
- settings: of each algorithm;
- commands, and the flags of each.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RELEASES = ROOT / "docs" / "releases"
_LISTING = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def public() -> dict[str, Any]:
    """Everything public of this source."""
    return {"names": names(), "settings": settings(), "commands": commands()}


def names() -> dict[str, list[str]]:
    """Modules, and what is imported from each."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages = [page for page in pages if "decisions" not in page.parts]
    texts = [text for page in pages for text in _LISTING.findall(page.read_text("utf-8"))]
    texts += [path.read_text("utf-8") for path in sorted((ROOT / "examples").glob("*.py"))]
    found: dict[str, set[str]] = {}
    for text in texts:
        for statement in ast.walk(ast.parse(text)):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    if alias.name.startswith("rillflow"):
                        found.setdefault(alias.name, set())
            elif isinstance(statement, ast.ImportFrom):
                module = statement.module or ""
                if module.split(".")[0] == "rillflow":
                    own = found.setdefault(module, set())
                    own.update(alias.name for alias in statement.names)
    for whole in ("rillflow", "rillflow.paper", "rillflow.testing"):
        module = import_module(whole)
        own = found.setdefault(whole, set())
        for name in dir(module):
            module_of = getattr(getattr(module, name), "__module__", "")
            if not name.startswith("_") and str(module_of).startswith("rillflow"):
                own.add(name)
    return {module: sorted(own) for module, own in sorted(found.items())}


def settings() -> dict[str, list[str]]:
    """The settings of each algorithm."""
    from rillflow.algorithms import NAMES, get_algorithm

    return {
        name: sorted(field.name for field in dataclasses.fields(get_algorithm(name).Config))
        for name in NAMES
    }


def commands() -> dict[str, list[str]]:
    """The flags of each command, as its help lists them, without those of an algorithm."""
    from docs.generate.commands import shown
    from rillflow.cli.commands import COMMANDS

    found: dict[str, list[str]] = {}
    for name in COMMANDS:
        lines = shown([name, "--help"]).splitlines()
        heads = [line.strip().split("  ")[0] for line in lines if line.lstrip().startswith("-")]
        found[name] = sorted({flag for head in heads for flag in _FLAG.findall(head)})
    return found


def last_release() -> tuple[str, dict[str, Any]]:
    """The newest release that is on record, and what was public in it."""
    files = sorted(RELEASES.glob("*.json"), key=lambda path: [*map(int, path.stem.split("."))])
    return files[-1].stem, json.loads(files[-1].read_text("utf-8"))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    path = RELEASES / f"{sys.argv[1]}.json"
    path.write_text(json.dumps(public(), indent=1) + "\n", "utf-8")
    print(path.relative_to(ROOT))
