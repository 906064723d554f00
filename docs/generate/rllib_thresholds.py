"""RLlib's thresholds beside what `benchmarks/rllib_thresholds.py` measured, as tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rillflow.algorithms import NAMES

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))  # scripts, which find each other by their folder

from _rllib_rows import NOT_ATTEMPTED, ROWS, Row  # noqa: E402

RESULTS = BENCHMARKS / "results" / "rllib" / "thresholds.json"
OF_THE_TASK = ("env_config", "memory", "policies")
"""settings without which a row would be another task"""
SEEDS = 3
"""that have to pass"""


def measured(path: Path = RESULTS) -> dict[str, list[dict[str, Any]]]:
    """What was found, by the names of the rows."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(path.read_text()) if path.exists() else []:
        found.setdefault(one["row"], []).append(one)
    return found


def page() -> str:
    """The rows that were attempted, those that fail, and what was not attempted."""
    found = measured()
    rows = [row for row in ROWS if row.algorithm in NAMES]
    held = [row for row in rows if _held(found.get(str(row), []))]
    failed = [row for row in rows if _fails(found.get(str(row), []))]
    missing = [row for row in rows if row not in held and row not in failed]
    counted = f"{len(held)} of {len(held) + len(failed)} rows are held by all {SEEDS} seeds."
    if missing:
        counted += f" {len(missing)} more were not measured yet, or not with {SEEDS}."
    pieces = [counted, _table(rows, found), "## Rows that fail", _failures(failed, found)]
    pieces += _tuned([row for row in rows if str(row) in found])
    if missing:
        named = (f"- {row}" + _so_far(found.get(str(row), [])) for row in missing)
        pieces += ["## Not measured yet", "\n".join(named)]
    reasons = "\n".join(f"| {what} | {why} |" for what, why in NOT_ATTEMPTED)
    pieces += ["## Not attempted", f"| what RLlib asks | why not here |\n|---|---|\n{reasons}"]
    return "\n\n".join(pieces)


def _tuned(rows: list[Row]) -> list[str]:
    """What rows are trained with beside what their task needs."""
    lines = []
    for row in rows:
        own = {name: value for name, value in row.settings.items() if name not in OF_THE_TASK}
        if own:
            told = ", ".join(f"`{name}={value!r}`" for name, value in own.items())
            lines.append(f"- {row}: {told}")
    return ["## Rows with settings of their own", "\n".join(lines)] if lines else []


def _held(attempts: list[dict[str, Any]]) -> bool:
    return len(attempts) >= SEEDS and all(one["passed"] for one in attempts)


def _fails(attempts: list[dict[str, Any]]) -> bool:
    return any(not one["passed"] for one in attempts)


def _so_far(attempts: list[dict[str, Any]]) -> str:
    return f": {len(attempts)} of {SEEDS} seeds so far, which pass" if attempts else ""


def _table(rows: list[Row], found: dict[str, list[dict[str, Any]]]) -> str:
    lines = [
        "| algorithm | environment | RLlib asks | within | ours | steps | seconds | held |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        attempts = found.get(str(row), [])
        if not attempts:
            continue
        scores = ", ".join(_score(one) for one in attempts)
        steps = ", ".join(f"{one['steps']:,}" for one in attempts)
        seconds = ", ".join(f"{one['seconds']:.0f}" for one in attempts)
        limit = f"{row.within:,}" + (" (ours)" if row.own_limit else "")
        asks = f"{row.asks:g}" + (" greedy" if row.greedy else "")
        env = row.called or f"`{row.env}`"
        held = "yes" if _held(attempts) else "**no**" if _fails(attempts) else "not yet known"
        cells = [f"`{row.algorithm}`", env, asks, limit, scores, steps, seconds, held]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _score(one: dict[str, Any]) -> str:
    shown = f"{one['score']:.4g}"
    return shown if one["passed"] else f"**{shown}**"


def _failures(failed: list[Row], found: dict[str, list[dict[str, Any]]]) -> str:
    if not failed:
        return "None."
    lines = []
    for row in failed:
        attempts = found[str(row)]
        good = sum(one["passed"] for one in attempts)
        lines.append(f"- {row}: {good} of {len(attempts)} seeds reach {row.asks:g}.")
    return "\n".join(lines)
