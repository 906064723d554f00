"""A search for settings as a picture: its history, and which settings mattered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rillflow.arguments import path_ending_in
from rillflow.files import whole_file
from rillflow.results.optional_libraries import needs
from rillflow.results.plots import COLOURS, STYLE


@dataclass(frozen=True)
class Tried:
    """One trial."""

    number: int
    value: float
    """its last return"""
    pruned: bool = False
    defaults: bool = False


def plot_search(
    trials: Sequence[Tried], importances: Mapping[str, float], path: str | Path, title: str = ""
) -> Path:
    """Draw the returns of trials in their order, with the best so far, and bars of importance."""
    path = path_ending_in(path, (".png", ".svg", ".pdf"), "a plot")
    matplotlib = needs("matplotlib", "plot", "a plot")
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
        from matplotlib.figure import Figure

        widths = [3, 2] if importances else [1]
        figure = Figure(figsize=(10.6 if importances else 8.0, 4.4))
        axes = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
        _history(axes[0], trials, title)
        if importances:
            _bars(axes[1], importances)
        figure.tight_layout(w_pad=2.5)
        with whole_file(path) as part:
            told = {"Date": None} if path.suffix.lower() == ".svg" else None
            figure.savefig(part, dpi=150, facecolor="white", metadata=told)
    return path


def _history(ax: Any, trials: Sequence[Tried], title: str) -> None:
    done = sorted((t for t in trials if not t.pruned), key=lambda t: t.number)
    given_up = [t for t in trials if t.pruned]
    best: list[float] = []
    for one in done:
        best.append(max(one.value, *best[-1:]) if best else one.value)
    ends = [t.number for t in done], best
    if done:  # to the last trial, also if that was given up
        ends = [*ends[0], max(t.number for t in trials)], [*best, best[-1]]
    ax.step(*ends, where="post", color=COLOURS[2], lw=2, label="best")
    ax.plot([t.number for t in done], [t.value for t in done], "o", color=COLOURS[0], ms=5,
            label="trial")  # fmt: skip
    if given_up:
        ax.plot([t.number for t in given_up], [t.value for t in given_up], "x", color="#999999",
                ms=5, label="given up")  # fmt: skip
    for one in done:
        if one.defaults:
            ax.axhline(one.value, color="#555555", lw=1.1, ls=(0, (5, 4)), label="the defaults")
            break
    ax.set_title(title or "trials", loc="left", fontsize=12.5, fontweight="bold", parse_math=False)
    ax.set_xlabel("trial")
    ax.set_ylabel("last return")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False, fontsize=9.5, loc="best")


def _bars(ax: Any, importances: Mapping[str, float]) -> None:
    names = list(importances)[:12][::-1]
    ax.barh(names, [importances[name] for name in names], color=COLOURS[0], height=0.6)
    ax.set_title("importance", loc="left", fontsize=12.5, fontweight="bold")
    ax.set_xlim(0, 1)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("share of the differences between returns")
