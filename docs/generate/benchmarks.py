"""The page of benchmarks: tables from the saved results, and the pictures drawn of them."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from docs.generate import benchmarks_in_short

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PICTURES = ROOT / "docs" / "pictures" / "benchmarks"
ORDER = ("ppo_cartpole", "sampling", "pong", "dqn_cartpole", "replay", "flow_vs_hand")
"""questions that come first; the others follow by name"""
SHOWN = {
    "train_s": "training, s",
    "wall_s": "with start, s",
    "env_steps": "env steps",
    "steps_per_s": "env steps/s",
    "updates_per_s": "updates/s",
    "peak_mb": "peak memory, MB",
    "score": "score",
}
"""numbers of single measurements that get a column, if a question has them"""

CAPTIONS = {
    "generality": "Blue lines are our training, one a seed, with exploration: the mean of the last "
    "100 episodes. Dots are the last policies, 100 greedy episodes each: blue ours, grey SB3's. "
    "The dashes are random actions.",
    "mujoco_million": "Blue lines are our training, one a seed, with exploration; dots the last "
    "policies, 100 greedy episodes each. Grey lines are what has been "
    "published: long dashes SB3's zoo, dots CleanRL.",
    "simple_spread": "Lines are training, one a seed; dots the last policies, 100 greedy episodes "
    "each; the dashes are random actions.",
}
"""what is to be seen in a picture, where that does not say itself"""


def documents(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """What was saved, in the order of the page."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    found = {name: document for name, document in found.items() if "asks" in document}
    first = [name for name in ORDER if name in found]
    return [found[name] for name in [*first, *(name for name in found if name not in first)]]


def page() -> str:
    """Every question with its figures, medians, picture and what is missing."""
    found = documents()
    if not found:
        return "Nothing has been measured yet: `make bench`."
    where = machine_of(found[0])
    return "\n\n".join(
        [
            "## In short",
            f"Medians, on {where}; whoever is missing in a row did not reach the goal in most "
            "of its runs, or was not asked.",
            benchmarks_in_short.table(found),
            "## Every bar",
            "What was set out to be reached, and whether it is; what is not says **no**.",
            overview(found),
            *map(section, found),
        ]
    )


def machine_of(document: dict[str, Any]) -> str:
    """The machine, without the day."""
    here = document["machine"]
    return f"{here['cores']} cores ({here['cpu']}) without a GPU"


def overview(found: list[dict[str, Any]]) -> str:
    """The figures that have a bar, all of them in one table."""
    rows = ["| question | figure | value | bar | met |", "|---|---|---|---|---|"]
    for document in found:
        name = document["question"]
        for figure in document["figures"]:
            if figure["bar"] is not None:
                link = f"[{name}](#{name})"
                rows.append(f"| {link} | {' | '.join(_cells(figure))} |")
    return "\n".join(rows)


def section(document: dict[str, Any]) -> str:
    """One question."""
    name = document["question"]
    pieces = [f"## {document['asks']} {{ #{name} }}", machine(document)]
    if (PICTURES / f"{name}.svg").exists():
        pieces.append(f"![{document['asks']}](pictures/benchmarks/{name}.svg){{ .curve }}")
        pieces.append(CAPTIONS.get(name, ""))
    pieces += [figures_table(document["figures"]), medians_table(document["measurements"])]
    if document["missing"]:
        lines = [f"- `{what}`: {_line(reason)}" for what, reason in document["missing"].items()]
        pieces.append("Not measured:\n\n" + "\n".join(lines))
    return "\n\n".join(filter(None, pieces))


def machine(document: dict[str, Any]) -> str:
    """Where and when, in a sentence."""
    here, versions = document["machine"], document["versions"]
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    quick = " **A quick run: the figures mean little.**" if document["quick"] else ""
    return (
        f"`benchmarks/{document['question']}.py`, {document['date']}: {here['cores']} cores "
        f"({here['cpu']}), {here['memory_gb']:g} GB, load before {here['load_before']:g}; "
        f"{document['settings'].get('repeats', '?')} rounds, {document['seconds']:.0f} s. "
        f"{told}.{quick}"
    )


def figures_table(figures: list[dict[str, Any]]) -> str:
    """Figures, each against its bar, with the ratios of the single pairs."""
    if not figures:
        return ""
    rows = ["| figure | value | bar | met | pairs |", "|---|---|---|---|---|"]
    for figure in figures:
        details = figure["details"]
        pairs = ", ".join(f"{value:g}" for value in details.get("pairs", []))
        notes = "; ".join(filter(None, [pairs, details.get("note"), details.get("our_failures")]))
        rows.append(f"| {' | '.join(_cells(figure))} | {notes} |")
    return "\n".join(rows)


def medians_table(measurements: list[dict[str, Any]]) -> str:
    """The median of each case, where there are numbers that a reader knows."""
    columns = [name for name in SHOWN if any(name in row for row in measurements)]
    if not columns:
        return ""
    rows = [
        "| medians | " + " | ".join(SHOWN[name] for name in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for case in dict.fromkeys(row["case"] for row in measurements):
        own = [row for row in measurements if row["case"] == case]
        cells = [
            _median([row[name] for row in own if row.get(name) is not None]) for name in columns
        ]
        rows.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cells(figure: dict[str, Any]) -> list[str]:
    met = {None: "", True: "yes", False: "**no**"}[figure["ok"]]
    value = f"{figure['value']:g} {figure['unit']}"
    return [f"`{figure['benchmark']}`", value, figure["bar"] or "", met]


def _median(values: list[float]) -> str:
    if not values:
        return ""
    found = statistics.median(values)
    return f"{found:,.0f}" if found >= 100 else f"{found:.3g}"


def _line(text: str) -> str:
    """On one line, and short."""
    line = " ".join(text.split()).replace("|", "/").replace("<", "(").replace(">", ")")
    return line if len(line) < 200 else f"{line[:200]} …"
