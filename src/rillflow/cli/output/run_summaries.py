"""What became of runs, from their directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rillflow.runs.directory import RunDirectory, runs_in
from rillflow.safety.bounded import read_json, regular_file
from rillflow.web.run_files import judge

_LARGEST = 16 << 20
"""bytes of a run.json or status.json"""
_TAIL = 65_536
"""bytes from the end of a file of metrics in which its last line is looked for"""


def summaries(root: str | Path) -> list[dict[str, Any]]:
    """Each run under a directory: what it is, its state, its last steps and return."""
    return [summary(directory) for directory in runs_in(root)]


def summary(directory: RunDirectory) -> dict[str, Any]:
    """One run; a run that says it goes on while its process is gone has died."""
    about, status = (_document(directory.path / name) for name in ("run.json", "status.json"))
    last = last_row(directory.metrics)
    return {
        "run": str(directory),
        "algorithm": about.get("algorithm"),
        "env": about.get("env"),
        "seed": about.get("seed"),
        "created": about.get("created"),
        "state": judge(status, directory=directory.path)["state"],
        **{name: _number(last.get(name)) for name in ("steps", "seconds", "return")},
    }


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _document(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is none that can be read."""
    try:
        content = read_json(path, _LARGEST)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def last_row(path: Path) -> dict[str, Any]:
    """The last whole line of a file of metrics; empty if there is none."""
    try:
        with regular_file(path) as (file, size):
            file.seek(max(0, size - _TAIL))
            lines = file.read(_TAIL).splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            return row
    return {}
