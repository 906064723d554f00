"""What a simulation predicts, drawn: speed and how busy everything is, over the workers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rillflow.arguments import path_ending_in
from rillflow.files import whole_file
from rillflow.results.optional_libraries import needs
from rillflow.results.plots import COLOURS, STYLE, apart, short

_INK, _FAINT, _BAND = "#222222", "#767676", ("#F4F6F9", "#E7ECF2")


def plot_scaling(rows: Sequence[Any], path: str | Path, title: str = "", told: str = "") -> Path:
    """Draw the rows of a simulation: `plot_scaling(report.rows, "scaling.png")`.

    On the left steps of environments per second (items, where workers tell no steps) beside what as
    many times one worker would do, over bands that say what limits it; on the right how busy each
    place of work is.

    Args:
        rows: of a `SimulationReport`.
        path: a `.png`, `.svg` or `.pdf`.
        title: of the picture.
        told: a line below it, such as where the latencies come from.
    """
    path = path_ending_in(path, (".png", ".svg", ".pdf"), "a plot")
    matplotlib = needs("matplotlib", "plot", "a plot")
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
        figure = Figure(figsize=(11.0, 5.0))
        left, right = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.075, right=0.9, top=0.71, bottom=0.12, wspace=0.22)
        figure.text(0.075, 0.94, title, fontsize=13.5, fontweight="bold", color=_INK)
        figure.text(0.075, 0.895, told, fontsize=9.5, color=_FAINT)
        _speed(left, rows)
        _busy(right, rows)
        with whole_file(path) as part:
            date = {"Date": None} if path.suffix.lower() == ".svg" else None
            figure.savefig(part, dpi=150, facecolor="white", metadata=date)
    return path


def place_name(resource: str | None) -> str:
    """A resource as a word.

    >>> place_name("actors 'worker'"), place_name("background 'learner'"), place_name(None)
    ('workers', 'learner', 'nothing alone')
    """
    if resource is None:
        return "nothing alone"
    kind, _, name = resource.partition(" ")
    return kind if not name else name.strip("'") + ("s" if kind == "actors" else "")


def _speed(ax: Any, rows: Sequence[Any]) -> None:
    from matplotlib.ticker import LogLocator

    counts = [row.workers for row in rows]
    told = all(row.steps for row in rows)
    values = [row.steps if told else row.throughput for row in rows]
    ideal = [values[0] * count / counts[0] for count in counts]
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    _bands(ax, rows)
    ax.plot(counts, ideal, ls=(0, (5, 4)), lw=1.2, color=_FAINT)
    ax.plot(counts, values, "o-", color=COLOURS[0], lw=2.2, ms=5, zorder=3)
    low, high = min(values) / 1.6, max(values) * 4
    ax.set_ylim(low, high)
    at = min(high / 1.5, ideal[-1])  # on the dashed line, near the top; beside it where room is
    across = counts[0] * at / values[0]
    far = across * across > counts[0] * counts[-1]
    aside = {"xytext": (-8, -3), "ha": "right"} if far else {"xytext": (10, -3), "ha": "left"}
    ax.annotate("in proportion", (across, at), textcoords="offset points", color=_FAINT,
                fontsize=9.5, **aside)  # fmt: skip
    ax.annotate(_rate(values[-1]), (counts[-1], values[-1]), xytext=(0, 8), ha="right",
                textcoords="offset points", color=COLOURS[0], fontweight="bold")  # fmt: skip
    _axes(ax, counts, "environment steps per second" if told else "items per second")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(short)


def _busy(ax: Any, rows: Sequence[Any]) -> None:
    counts = [row.workers for row in rows]
    ax.set_xscale("log", base=2)
    names = list(dict.fromkeys(name for row in rows for name in row.resources))
    ends = []
    for place, name in enumerate(names):
        shares = [100 * row.resources.get(name, 0.0) for row in rows]
        ax.plot(counts, shares, "o-", color=COLOURS[(place + 1) % len(COLOURS)], lw=2.2, ms=4)
        ends.append(shares[-1])
    ax.set_ylim(0, 104)
    height = 200.0
    at = apart([end / 104 * height for end in ends], 15.0, height)
    for place, (name, y) in enumerate(zip(names, at, strict=True)):
        ax.annotate(place_name(name), (1, y / height), xycoords="axes fraction", xytext=(8, 0),
                    textcoords="offset points", va="center", fontweight="bold",
                    color=COLOURS[(place + 1) % len(COLOURS)], annotation_clip=False)  # fmt: skip
    _axes(ax, counts, "busy, % of the time")


def _bands(ax: Any, rows: Sequence[Any]) -> None:
    """Where what limits the speed changes, a new shade begins, with its name on top."""
    edges: list[tuple[float, str]] = []
    for before, row in zip([None, *rows], rows, strict=False):
        if before is None or before.limit != row.limit:
            begin = row.workers / 1.3 if before is None else (before.workers * row.workers) ** 0.5
            edges.append((begin, place_name(row.limit)))
    last = rows[-1].workers * 1.3
    ax.set_xlim(edges[0][0], last)
    for number, (begin, name) in enumerate(edges):
        end = edges[number + 1][0] if number + 1 < len(edges) else last
        ax.axvspan(begin, end, color=_BAND[number % 2], lw=0, zorder=0)
        ax.annotate(("limited by\n" if number == 0 else "\n") + name, ((begin * end) ** 0.5, 1),
                    xycoords=("data", "axes fraction"), xytext=(0, 5), ha="center", color=_FAINT,
                    textcoords="offset points", fontsize=9.5)  # fmt: skip


def _axes(ax: Any, counts: Sequence[int], label: str) -> None:
    ax.set_xticks(counts, [str(count) for count in counts])
    ax.minorticks_off()
    ax.tick_params(length=3)
    ax.set_xlabel("workers")
    ax.set_title(label, loc="left", fontsize=10.5, color=_INK, pad=36)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
