"""A training run as a piece of HTML, for notebooks: bar, figures, curve, operators, dataflow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rillflow.runs.progress.curve_svg import curve_svg
from rillflow.runs.progress.progress_lines import of_few, shown_evaluation, time_left
from rillflow.runs.progress.time_left import duration

if TYPE_CHECKING:
    from rillflow.scheduler.stats import RunStats

Row = Mapping[str, float]
_COLOURS = {"finished": "#2f9e5f", "failed": "#c0392b", "stopped": "#b7791f"}
_BUSY = "#2b7bba"
_CELL = "padding:1px 12px 1px 0;text-align:"


def run_html(
    title: str,
    state: str,
    history: Sequence[Row],
    *,
    done: float | None = None,
    left: tuple[float, str] | None = None,
    rate: float = 0.0,
    goal: float | None = None,
    notes: Sequence[str] = (),
    stats: RunStats | None = None,
    graph: str | None = None,
) -> str:
    """Everything, top to bottom; all words are escaped.

    Args:
        title: what is trained on what.
        state: of the run.
        history: its rows so far.
        done: share of the way that has been gone; None: nobody knows.
        left: seconds, and the limit that they are to; None: nobody knows.
        rate: steps a second.
        goal: the return that is to be reached.
        notes: lines below the figures.
        stats: of the operators.
        graph: the dataflow as SVG.
    """
    parts = [f"<b>{escape(title)}</b> <span style='opacity:.7'>{escape(state)}</span>"]
    if done is not None:
        parts.append(bar_html(done, _COLOURS.get(state, _BUSY)))
    parts.append(f"<div>{escape(_figures(history, rate, left))}</div>")
    parts += [f"<div style='opacity:.75'>{escape(note)}</div>" for note in notes]
    if len(history) > 1:
        parts.append(curve_svg(history, goal))
    if stats is not None and stats.operators:
        parts.append(stats_html(stats))
    if graph is not None:
        graph = graph.replace("<svg ", "<svg style='max-width:100%;height:auto' ", 1)
        parts.append(
            "<details><summary>dataflow</summary><div style='background:#fff;overflow-x:auto;"
            f"padding:6px'>{graph}</div></details>"
        )
    body = "".join(parts)
    return f"<div style='max-width:680px;line-height:1.5;overflow-x:auto'>{body}</div>"


def bar_html(share: float, colour: str) -> str:
    """A bar, full to this share."""
    width = 100 * min(1.0, max(0.0, share))
    return (
        "<div style='background:rgba(128,128,128,.25);border-radius:4px;height:8px;margin:4px 0'>"
        f"<div style='width:{width:.1f}%;height:8px;border-radius:4px;background:{colour}'></div>"
        "</div>"
    )


def stats_html(stats: Any) -> str:
    """The operators of a run as a table, and what limits it."""
    names = ("operator", "where", "items", "items/s", "busy")
    head = "".join(f"<th style='{_CELL}left;opacity:.7'>{name}</th>" for name in names)
    lines = []
    for one in stats.operators:
        rate = f"{one.rate:,.0f}" if one.rate >= 10 else f"{one.rate:.1f}"
        figures = f"{one.items:,}", rate, f"{one.utilisation:.0%}"
        cells = [f"<td style='{_CELL}left'>{escape(text)}</td>" for text in (one.name, one.where)]
        cells += [f"<td style='{_CELL}right'>{text}</td>" for text in figures]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    table = f"<table style='border-collapse:collapse;font-size:12px'><tr>{head}</tr>"
    verdict = f"<div style='opacity:.85'>{escape(stats.verdict)}</div>"
    return f"{table}{''.join(lines)}</table>{verdict}"


def _figures(history: Sequence[Row], rate: float, left: tuple[float, str] | None) -> str:
    """The newest figures in a line."""
    if not history:
        return "starting workers, waiting for the first update"
    row = history[-1]
    known = math.isfinite(row.get("return", math.nan))
    got = f"return {row['return']:,.1f}{of_few(row)}" if known else "no episode has ended yet"
    told = [got, f"{row['steps']:,.0f} steps"]
    if rate:
        told.append(f"{rate:,.0f} steps/s")
    if "seconds" in row:
        told.append(duration(row["seconds"]))
    evaluated = next((one for one in reversed(history) if "eval_return" in one), None)
    if evaluated is not None:
        told.append(shown_evaluation(evaluated))
    if left is not None:
        told.append(f"about {time_left(left)}")
    return " · ".join(told)
