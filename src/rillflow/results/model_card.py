"""The card of a packed run: what its policy is, how it was made, how good it is, how to use it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rillflow.run_labels import settings_of_run, shown, text
from rillflow.safety.bounded import regular_file
from rillflow.safety.consent import named_code

_POINTS = 200
"""of the learning curve in the card"""
_LINE_BYTES = 1 << 20
_ROWS = 200_000
_FIGURES = ("steps", "seconds", "episodes", "return", "eval_return")

Json = dict[str, Any]


def card_of(run: Path, about: Json, files: Sequence[str]) -> Json:
    """Everything to be said, as plain data."""
    curve = _curve(run / "metrics.jsonl")
    settings = about.get("config") if isinstance(about.get("config"), dict) else {}
    return {
        "format": 1,
        "algorithm": about.get("algorithm"),
        "env": about.get("env"),
        "label": about.get("label"),
        "agents": about.get("agents"),
        "seed": about.get("seed"),
        "engine": about.get("engine"),
        "until": about.get("until"),
        "created": about.get("created"),
        "versions": about.get("versions"),
        "settings": settings,
        "changed": _changed(about),
        "needs": named_code(settings, about.get("algorithm")),
        "last": {name: curve[-1][name] for name in _FIGURES if name in curve[-1]} if curve else {},
        "best": _judged(about),
        "curve": thinned(curve, _POINTS),
        "contents": list(files),
    }


def _judged(about: Json) -> Any:
    summary = about.get("summary")
    return summary.get("best") if isinstance(summary, dict) else None


def _changed(about: Json) -> Json:
    """Settings that differ from the algorithm's defaults; of an algorithm of the user's, all."""
    from rillflow.algorithms import NAMES, get_algorithm
    from rillflow.results.config_as_json import settings_of

    settings = settings_of_run(about)
    settings.pop("engine", None)
    if about.get("algorithm") not in NAMES:
        return settings
    config = get_algorithm(str(about["algorithm"])).Config()
    usual = settings_of_run({"config": settings_of(config)})
    return {k: v for k, v in settings.items() if json.dumps(v) != json.dumps(usual.get(k))}


def _curve(path: Path) -> list[dict[str, float]]:
    """The figures of its rows that the card is about."""
    rows: list[dict[str, float]] = []
    try:
        with regular_file(path) as (file, _):
            while len(rows) < _ROWS and (line := file.readline(_LINE_BYTES)):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(row, dict):
                    rows.append({n: row[n] for n in _FIGURES if _is_number(row.get(n))})
    except OSError:
        return rows
    return rows


def _is_number(value: object) -> bool:
    fine = isinstance(value, int | float) and not isinstance(value, bool)
    return fine and math.isfinite(value)  # type: ignore[arg-type]


def thinned(rows: Sequence[Any], most: int) -> list[Any]:
    """So many of them, evenly, and always the last."""
    every = -(-len(rows) // most)
    return list(rows) if every <= 1 else list(rows[::-1][::every][::-1])


def card_as_text(card: Json, name: str) -> str:
    """The card as Markdown."""
    parts = [
        f"# {_plain(card['algorithm'])} on {_plain(card['env'])}",
        _made(card),
        "## How good it is",
        _results(card),
        *(["![the learning curve](curve.png)"] if "curve.png" in card["contents"] else []),
        *(f"Film: [{one}]({one})" for one in card["contents"] if one.startswith("video.")),
        "## How to use it",
        _use(card, name),
        "## Settings",
        "Those that differ from the defaults:\n\n" + _table(card["changed"], "None do."),
        "All are in `run.json`; rows of figures in `metrics.jsonl`.",
        "## Made with",
        _table(card["versions"] or {}, "Nothing was written down."),
    ]
    return "\n\n".join(parts) + "\n"


def _made(card: Json) -> str:
    agents = card["agents"]
    what = f"Policies of {len(agents)} agents" if isinstance(agents, dict) else "A policy"
    label = f" ({_plain(card['label'])})" if card["label"] else ""
    until = card["until"] if isinstance(card["until"], dict) else {}
    limits = ", ".join(f"{_plain(name)} {shown(value)}" for name, value in until.items())
    return (
        f"{what}{label}, trained by {_plain(card['algorithm'])} in {_plain(card['env'])} on the "
        f"{_plain(card['engine'])} engine, seed {shown(card['seed'])}"
        + (f", until {limits}" if limits else "")
        + f", on {_plain(card['created'])}."
    )


def _results(card: Json) -> str:
    last, best = card["last"], card["best"]
    names = {
        "return": "mean return of the last 100 episodes of training",
        "eval_return": "mean return of its last evaluation, greedily",
        "steps": "environment steps",
        "episodes": "episodes",
        "seconds": "seconds",
    }
    rows = {text: _figure(last[name]) for name, text in names.items() if name in last}
    if isinstance(best, dict) and _is_number(best.get("score")):
        by, steps = text(best.get("by") or ""), best.get("steps", 0)
        after = f" after {_figure(steps)} steps" if _is_number(steps) else ""
        rows["score of the best policy"] = f"{_figure(best['score'])} by {by}{after}"
    return _table(rows, "No result was written down.")


def _use(card: Json, name: str) -> str:
    trust = "".join(f" --trust {_plain(one)}" for one in card["needs"])
    lines = [
        "```sh",
        f"rillflow evaluate {name}{trust}",
        f"rillflow unpack {name}",
        "```",
    ]
    if card["needs"]:
        named = "; ".join(f"{_plain(n)}, {_plain(w)}" for n, w in card["needs"].items())
        lines += ["", f"It needs code that is not in this file: {named}."]
    if not isinstance(card["agents"], dict):
        lines += [
            "",
            "In Python, once unpacked:",
            "",
            "```python",
            "import rillflow as rf",
            "",
            'policy = rf.load("policy.npz")',
            "action = policy.act(observation)",
            "```",
        ]
    return "\n".join(lines)


def _table(rows: Mapping[str, Any], nothing: str) -> str:
    if not rows:
        return nothing
    lines = [f"| {_plain(name)} | {_plain(value)} |" for name, value in rows.items()]
    return "\n".join(["| | |", "|---|---|", *lines])


def _plain(value: object) -> str:
    """Words from a file, where they can begin nothing in Markdown but themselves."""
    words = text(value if isinstance(value, str) else shown(value))
    return "".join(f"\\{letter}" if letter in "|<>[]!`\\" else letter for letter in words)


def _figure(value: float) -> str:
    return f"{value:,.1f}" if abs(value) < 10_000 and value != int(value) else f"{value:,.0f}"
