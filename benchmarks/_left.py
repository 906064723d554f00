"""What a run that was ended has left: measurements in `build/`, by what was measured.

A question that takes hours goes on where it stopped. What belongs to a measurement, its settings
among it, is its key: where that has changed it is measured anew. Delete the file to begin anew.
"""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

BUILD = Path(__file__).parents[1] / "build"
_ONE_AT_A_TIME = threading.Lock()


def left_or_new(
    name: str, key: dict[str, Any], measure: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The numbers that are kept in `build/NAME.jsonl` under this key, or those of `measure()`.

    Only what has a score is kept.
    """
    path = BUILD / f"{name}.jsonl"
    key = json.loads(json.dumps(key))
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        if row["key"] == key:
            return dict(row["found"])
    found = measure()
    if "score" in found:
        with _ONE_AT_A_TIME:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(json.dumps({"key": key, "found": found}) + "\n")
    return found


def settings_of(algorithm: str) -> str:
    """What our side begins with where nothing is known of the environment, as text."""
    module = importlib.import_module(f"rillflow.algorithms.{algorithm}")
    return repr(module.Config(env=None))
