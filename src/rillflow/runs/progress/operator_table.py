"""The operators of a run as a table of a terminal: as many columns as there is room for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from rillflow.runs.progress.braille_curve import bar

_WIDE, _MIDDLE, _NARROW = 76, 56, 48
"""columns from which there is room for everything, for the bars, and for the counts"""
_BAR = 10
_LEAST_NAME = 12


def operator_table(status: Mapping[str, Any], width: int, most: int) -> Table:
    """Who does how much; the busiest ones where there are many.

    Where it is narrow, names and figures stay whole, and what can be done without is left out:
    where an operator runs, the bars, the counts, and what kind of operator calls a function.
    """
    wide, bars = width >= _WIDE, width >= _MIDDLE
    lines = _busiest(status["operators"], most)
    heads = ("items", "items/s") if width >= _NARROW else ("items/s",)
    rows = [_figures(line)[-len(heads) :] for line in lines]
    figures = sum(2 + max(map(len, column)) for column in zip(heads, *rows, strict=True))
    figures += 2 + (5 + _BAR if bars else 4)
    where = 2 + max((len(line["where"]) for line in lines), default=0) if wide else 0
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    room = max(_LEAST_NAME, width - figures - where)
    table.add_column("operator", no_wrap=True, overflow="ellipsis", max_width=room)
    if wide:
        table.add_column("where", no_wrap=True)
    for name in heads:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("busy", no_wrap=True)
    for line, row in zip(lines, rows, strict=True):
        share = float(line["utilisation"])
        busy = Text(f"{share:>4.0%}")
        if bars:
            busy.append(" ").append(bar(share, _BAR), style="red" if share > 0.8 else "cyan")
        place = (line["where"],) if wide else ()
        table.add_row(_fitted(line["name"], room), *place, *row, busy)
    return table


def _fitted(name: str, room: int) -> str:
    """A name, or where it is too long the function that it calls.

    >>> _fitted("for_each(TrainOneStep)", 22), _fitted("for_each(TrainOneStep)", 21)
    ('for_each(TrainOneStep)', 'TrainOneStep')
    """
    called = name.partition("(")[2].removesuffix(")")
    return called if len(name) > room and called else name


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
