"""What a run that was ended has left: measurements in `build/`, by what was measured.

A question that takes hours goes on where it stopped. What belongs to a measurement, its settings
among it, is its key: where that has changed it is measured anew. Delete the file to begin anew.

A question can be measured in parts, one row each, on as many machines as there are. The first
command writes its rows into a file and answers nothing; the second takes files of rows for
measured, and asks the question with them:

    python benchmarks/mujoco_million.py --only Hopper-v5 --seeds 101 --out part.jsonl
    python benchmarks/mujoco_million.py --take part.jsonl,another.jsonl

With `--measured` the question is answered from what is there, and says what is missing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import _machine

BUILD = Path(__file__).parents[1] / "build"
_ONE_AT_A_TIME = threading.Lock()
_ONLY_MEASURED = "ONLY_MEASURED"
LACKING = "it was not measured"
"""why a row is missing where nothing may be measured"""
Rows = Sequence[tuple[str, str, int]]
"""what a question measures of ours: algorithm, environment and seed of each row"""


def left_or_new(
    name: str, key: dict[str, Any], measure: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The numbers that are kept in `build/NAME.jsonl` under this key, or those of `measure()`.

    Only what has a score is kept.
    """
    kept = left(name, key)
    if kept is not None:
        return kept
    if not may_measure():
        return {"failed": LACKING}
    found = measure()
    keep(BUILD / f"{name}.jsonl", key, found)
    return found


def may_measure() -> bool:
    """Whether what is not there yet is to be measured."""
    return os.environ.get(_ONLY_MEASURED) != "1"


def left(name: str, key: dict[str, Any]) -> dict[str, Any] | None:
    """The numbers that are kept under this key; None: there are none."""
    key = json.loads(json.dumps(key))
    found = (row["found"] for row in rows_in(BUILD / f"{name}.jsonl") if row["key"] == key)
    first = next(found, None)
    return None if first is None else dict(first)


def keep(path: Path, key: dict[str, Any], found: dict[str, Any]) -> None:
    """Add a row to a file, if it has a score."""
    if "score" in found:
        with _ONE_AT_A_TIME:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(json.dumps({"key": key, "found": found}) + "\n")


def rows_in(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def settings_of(algorithm: str) -> str:
    """What our side begins with where nothing is known of the environment, as text."""
    module = importlib.import_module(f"rillflow.algorithms.{algorithm}")
    return repr(module.Config(env=None))


def parts(
    name: str, rows: Rows, row: Callable[[str, str, int], tuple[dict[str, Any], dict[str, Any]]]
) -> int | None:
    """Measure the rows that the command line names into a file, or take files of them.

    Args:
        name: of the question.
        rows: all that it measures.
        row: measures one of them; gives its key and what was found.

    Returns:
        The exit code of a part; None: the question is asked as a whole, by what is left in
        `sys.argv`.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--only", help="environments, or ALGORITHM:ENVIRONMENT")
    parser.add_argument("--seeds", help="in place of those of the question")
    parser.add_argument("--out", type=Path, help="write the rows there, and answer nothing")
    parser.add_argument("--measured", action="store_true", help="measure nothing")
    parser.add_argument("--take", help="files of rows that were written so, joined by commas")
    given, sys.argv[1:] = parser.parse_known_args()
    if given.measured:
        os.environ[_ONLY_MEASURED] = "1"
    if given.take:
        for file in map(Path, given.take.split(",")):
            _take(BUILD / f"{name}.jsonl", file)
    if given.out is None:
        if given.only or given.seeds:
            parser.error("--only and --seeds name the rows of a part, which needs --out FILE")
        return None
    wanted = given.only.split(",") if given.only else None
    some = [one for one in rows if wanted is None or _named(one, wanted)]
    if given.seeds:
        seeds = [int(seed) for seed in given.seeds.split(",")]
        some = [(*pair, seed) for pair in dict.fromkeys(one[:2] for one in some) for seed in seeds]
    if not some:
        parser.error(f"--only {given.only} names none of the rows of {name}")
    whole = True
    for one in some:
        key, found = row(*one)
        keep(given.out, key, {**found, "cpu": _machine.facts()["cpu"]})
        if "score" not in found:
            print(f"{one}: {found.get('failed')}", file=sys.stderr)
            whole = False
    return 0 if whole else 1


def _named(row: tuple[str, str, int], wanted: Sequence[str]) -> bool:
    return row[1] in wanted or f"{row[0]}:{row[1]}" in wanted


def _take(path: Path, file: Path) -> None:
    """Rows of a file that are not there yet; a part that is measured again replaces nothing."""
    known = [row["key"] for row in rows_in(path)]
    for row in rows_in(file):
        if row["key"] not in known:
            keep(path, row["key"], row["found"])
