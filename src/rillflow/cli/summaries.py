"""What became of runs, from their directories."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rillflow.runs.directory import RunDirectory, runs_in
from rillflow.web.files import judge

_TAIL = 65_536
"""bytes from the end of a file of metrics in which its last line is looked for"""


def summaries(root: str | Path) -> list[dict[str, Any]]:
    """Each run under a directory: what it is, its state, its last steps and return."""
    return [summary(directory) for directory in runs_in(root)]


def summary(directory: RunDirectory) -> dict[str, Any]:
    """One run; a run that says it goes on while its process is gone has died."""
    about, last = directory.about, last_row(directory.metrics)
    return {
        "run": str(directory),
        "algorithm": about.get("algorithm"),
        "env": about.get("env"),
        "seed": about.get("seed"),
        "created": about.get("created"),
        "state": judge(directory.status)["state"],
        "steps": last.get("steps"),
        "seconds": last.get("seconds"),
        "return": last.get("return"),
    }


def last_row(path: Path) -> dict[str, Any]:
    """The last whole line of a file of metrics; empty if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL))
            lines = file.read().splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            return row
    return {}
