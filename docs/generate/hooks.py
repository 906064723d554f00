"""Called by MkDocs: expands `[[directive arguments]]` lines and adds pages that are made here.

[[operators]]                      the operators, from their docstrings
[[python]]                         what `rillflow` exports, from signatures and docstrings
[[algorithms FOLDER/]]             the table of algorithms, whose pages are in that folder
[[algorithm NAME]]                 graph, plan, settings and curve of an algorithm
[[commands]]                       the command line, from the parsers
[[source FILE NAME ...]]           parts of a file by the names that they define; `docstring`,
                                   `imports` and `main` are parts too
[[decisions]]                      the decisions, from their headings
[[benchmarks]]                     the benchmarks, from their saved results
[[atari]]                          what was measured of Atari games on a GPU
[[rllib_thresholds]]               what RLlib asks of each algorithm, and what was measured
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
for folder in (ROOT, ROOT / "src"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from docs.generate import (  # noqa: E402
    algorithms,
    atari,
    benchmarks,
    commands,
    decisions,
    operators,
    python,
    rllib_thresholds,
    sources,
)

_DIRECTIVE = re.compile(r"^\[\[(\w+)((?: [^\]]+)?)\]\]$", re.MULTILINE)
MAKERS: dict[str, Callable[..., str]] = {
    "operators": operators.reference,
    "python": python.reference,
    "algorithms": algorithms.table,
    "algorithm": algorithms.page,
    "commands": commands.reference,
    "source": sources.parts,
    "decisions": decisions.index,
    "benchmarks": benchmarks.page,
    "atari": atari.page,
    "rllib_thresholds": rllib_thresholds.page,
}


def expand(markdown: str) -> str:
    """A page with its directives replaced by what they stand for."""
    return _DIRECTIVE.sub(lambda found: MAKERS[found[1]](*found[2].split()), markdown)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """For each page, before it is rendered."""
    return expand(markdown)


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Pictures of the flows, as files of the site."""
    from mkdocs.structure.files import File

    for name, svg in algorithms.pictures().items():
        files.append(File.generated(config, f"pictures/flows/{name}.svg", content=svg))
    return files
