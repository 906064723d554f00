"""Runs on the command line: directories of runs, and directories that hold such."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rillflow.cli.flags.parser import Parser
from rillflow.cli.output.error_messages import Usage


def add_runs(parser: Parser) -> None:
    """One or more of them."""
    text = "directories of runs, or a directory that holds runs"
    parser.add_argument("runs", metavar="RUN", nargs="+", help=text)


def named_runs(given: Sequence[str], labels: Sequence[str] = ()) -> tuple[list[Path], list[str]]:
    """The runs that are meant, and the label of each; that of a directory is that of all its runs.

    Args:
        given: as on the command line.
        labels: none, or one for each of them.
    """
    if labels and len(labels) != len(given):
        raise Usage(
            f"--label is given once for each RUN: {len(given)}, and not {len(labels)} times"
        )
    found = [runs_at(text) for text in given]
    named = zip(found, labels, strict=True) if labels else ()
    return [run for runs in found for run in runs], [label for runs, label in named for _ in runs]


def runs_at(text: str) -> list[Path]:
    """The run of this name, or those in the directory of this name."""
    path = Path(text)
    if not path.is_dir():
        raise Usage(f"there is no run {text!r}; `rillflow list runs` shows them")
    if any((path / name).exists() for name in ("run.json", "metrics.jsonl")):
        return [path]
    inside = sorted((file.parent for file in path.glob("*/run.json")), key=_as_counted)
    return inside or [path]  # whoever reads it says what is missing


def _as_counted(path: Path) -> list[tuple[int, str]]:
    """The second run before the tenth."""
    parts = re.split(r"(\d+)", path.name)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]
