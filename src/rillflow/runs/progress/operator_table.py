"""The operators of a run as a table of a terminal: as many columns as there is room for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from rillflow.runs.progress.braille_curve import bar

_WIDE, _MIDDLE = 76, 56
"""columns from which there is room for everything, and for the bars"""
_BAR = 10
_LEAST_NAME = 12


def operator_table(status: Mapping[str, Any], width: int, most: int) -> Table:
    """Who does how much; the busiest ones where there are many.

    Where it is narrow, names and figures stay whole, and what can be done without is left out:
    where an operator runs, then the bars.
    """
    wide, bars = width >= _WIDE, width >= _MIDDLE
    lines = _busiest(status["operators"], most)
    rows = [_figures(line) for line in lines]
    texts = [*rows, ("items", "items/s")]
    figures = sum(2 + max(len(row[i]) for row in texts) for i in (0, 1))
    figures += 2 + (5 + _BAR if bars else 4)
    where = 2 + max((len(line["where"]) for line in lines), default=0) if wide else 0
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    room = max(_LEAST_NAME, width - figures - where)
    table.add_column("operator", no_wrap=True, overflow="ellipsis", max_width=room)
    if wide:
        table.add_column("where", no_wrap=True)
    for name in ("items", "items/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("busy", no_wrap=True)
    for line, (items, rate) in zip(lines, rows, strict=True):
        share = float(line["utilisation"])
        busy = Text(f"{share:>4.0%}")
        if bars:
            busy.append(" ").append(bar(share, _BAR), style="red" if share > 0.8 else "cyan")
        place = (line["where"],) if wide else ()
        table.add_row(line["name"], *place, items, rate, busy)
    return table


def _busiest(lines: list[Any], most: int) -> list[Any]:
    if len(lines) <= most:
        return lines
    busiest = sorted(lines, key=lambda line: -float(line["busy"]))[:most]
    return [line for line in lines if line in busiest]


def _figures(line: Mapping[str, Any]) -> tuple[str, str]:
    rate = float(line["rate"])
    return _short(line["items"]), f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def _short(count: int) -> str:
    """A count in seven characters at most.

    >>> _short(12_345), _short(1_234_567), _short(12_345_678_901)
    ('12,345', '1.23M', '12,346M')
    """
    if count < 1_000_000:
        return f"{count:,}"
    return f"{count / 1e6:.2f}M" if count < 10**9 else f"{count / 1e6:,.0f}M"
