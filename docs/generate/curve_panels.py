"""Learning curves side by side, a panel for each environment, with scores of last policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docs.generate.colours import INK, OURS, THEIRS

Document = dict[str, Any]
COLUMNS = 4
PUBLISHED = {"zoo": (6, 2), "cleanrl": (1, 2)}
"""whose scores are drawn as lines, and their dashes"""
_TITLE: dict[str, Any] = {"loc": "left", "fontsize": 9, "fontweight": "bold", "color": INK}


def generality(document: Document) -> Any:
    """For each environment our curves, and the last scores of both sides behind them."""
    cases = dict.fromkeys(row["case"] for row in document["measurements"])
    ours = [c for c in cases if c.startswith("rillflow ") and " time " not in c]
    panels = []
    for case in ours:
        _, algorithm, env = case.split(" ", 2)
        found = [f for f in document["figures"] if f["benchmark"] == f"{algorithm}_{env}"]
        nothing = found[0]["details"]["random"] if found else None
        sides = {
            "rillflow": _rows(document, case),
            "sb3": _rows(document, f"sb3 {algorithm} {env}"),
        }
        title = env.partition("/")[2] or env
        panels.append((title if algorithm == "ppo" else f"{title}, SAC", sides, nothing))
    return _panels(panels)


def mujoco_million(document: Document) -> Any:
    """Our curves and last scores, and lines where others have published theirs."""
    envs = dict.fromkeys(row["case"] for row in document["measurements"])
    known = {f["benchmark"]: f["details"] for f in document["figures"]}
    panels = [(env, {"rillflow": _rows(document, env)}, None) for env in envs]
    figure = _panels(panels, columns=3)
    for ax in figure.axes if figure is not None else ():
        details = known.get(ax.get_title(loc="left"), {})
        for who, dashes in PUBLISHED.items():
            if f"published_{who}" in details:
                mean = details[f"published_{who}"][0]
                ax.axhline(mean, color=THEIRS, lw=1.1, ls=(0, dashes))
    return figure


def simple_spread(document: Document) -> Any:
    """One policy for all agents beside one each."""
    nothing = next((row["score"] for row in _rows(document, "random")), None)
    cases = ("shared weights", "independent weights")
    panels = [(case, {"rillflow": _rows(document, case)}, nothing) for case in cases]
    return _panels(panels, columns=2, alike=True)


def _rows(document: Document, case: str) -> list[dict[str, Any]]:
    return [row for row in document["measurements"] if row["case"] == case and "score" in row]


def _panels(
    panels: Sequence[tuple[str, dict[str, list[dict[str, Any]]], float | None]],
    columns: int = COLUMNS,
    alike: bool = False,
) -> Any:
    from matplotlib.figure import Figure

    panels = [panel for panel in panels if panel[1]["rillflow"]]  # what is missing is told below
    if not panels:
        return None
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(2.6 * max(columns, 3), 2.2 * lines + 0.4))
    axes = figure.subplots(lines, columns, squeeze=False, sharey=alike).ravel()
    for ax, (title, sides, nothing) in zip(axes, panels, strict=False):
        _panel(ax, title, sides, nothing)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    figure.tight_layout(h_pad=1.2)
    return figure


def _panel(
    ax: Any, title: str, sides: dict[str, list[dict[str, Any]]], nothing: float | None
) -> None:
    """Lines are training, with exploration; dots the last policies, greedy; dashes random."""
    end = max(row["steps"] for rows in sides.values() for row in rows)
    for row in sides["rillflow"]:
        if row.get("training"):
            steps, returns = zip(*row["training"], strict=True)
            ax.plot([s / 1000 for s in steps], returns, color=OURS, lw=1.1, alpha=0.75)
    for place, (who, rows) in enumerate(sides.items()):
        colour, x = (OURS if who == "rillflow" else THEIRS), end / 1000 * (1.06 + 0.07 * place)
        ax.plot([x] * len(rows), [row["score"] for row in rows], "o", color=colour, ms=4.5)
    if nothing is not None:
        ax.axhline(nothing, color=INK, lw=0.8, ls=(0, (2, 3)))
    ax.set_title(title, **_TITLE)
    ax.tick_params(labelsize=8.5, length=3)
    ax.set_xlabel("thousand steps", fontsize=8.5)
