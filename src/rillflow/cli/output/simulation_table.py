"""Predictions on a terminal: a table that grows, the curve, what limits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rillflow.cli.output.fitted_lines import columns, fitted

_WIDTH, _HEIGHT = 64, 8


class Printer:
    """Rows of predictions in columns, printed one by one."""

    def __init__(self) -> None:
        self.first: Any = None
        self.resources: list[str] = []
        self.heads: list[str] = []
        self.widths: list[int] = []
        self.narrow = False
        """whether the terminal is too narrow for a table"""

    def print(self, row: Any, report: Any) -> None:
        """One number of workers."""
        from rillflow.results.scaling_plot import place_name

        if self.first is None:
            self.first = row
            cores = "as many cores as needed" if report.cores is None else f"{report.cores} cores"
            print("\n".join(fitted([f"on {cores}, with {report.source}", ""])))
            self.resources = list(row.resources)
            busy = [f"{place_name(name)} busy" for name in self.resources]
            steps = [] if row.steps is None else ["steps/s"]
            heads = ["workers", *steps, "updates/s", "speed-up", "staleness", *busy, "limited by"]
            self.heads, self.widths = heads, [max(len(head), 8) for head in heads]
            room = columns()
            self.narrow = room is not None and sum(self.widths) + 2 * len(heads) > room
            if not self.narrow:
                self._line(heads)
        shares = [f"{row.resources.get(name, 0.0):.0%}" for name in self.resources]
        steps = [] if self.first.steps is None else [rate(row.steps or 0.0)]
        faster = speed(row) / speed(self.first) if speed(self.first) else 0.0
        stale = f"{row.lag_mean:.1f}"
        self._line(
            [str(row.workers), *steps, rate(row.throughput), f"{faster:.1f}", stale, *shares,
             place_name(row.limit)]
        )  # fmt: skip

    def _line(self, cells: list[str]) -> None:
        if self.narrow:
            wide = max(map(len, self.heads))
            told = zip(self.heads, cells, strict=True)
            print("\n".join(f"{head:<{wide}}  {cell}" for head, cell in told), "\n", flush=True)
            return
        *numbers, last = cells
        pairs = zip(numbers, self.widths, strict=False)
        print("  ".join([*(cell.rjust(width) for cell, width in pairs), last]), flush=True)

    def conclusion(self, rows: Sequence[Any]) -> list[str]:
        """The curve, and what limits it, each time that changes."""
        from rillflow.simulation.report import limits

        lines = [""]
        if len(rows) > 2:
            lines += [*_curve(rows), ""]
        return [*lines, *fitted(limits(rows))]


def speed(row: Any) -> float:
    """What more workers are for: steps per second, or items where nobody counts steps."""
    value: float = row.throughput if row.steps is None else row.steps
    return value


def rate(value: float) -> str:
    """A number per second.

    >>> rate(12345.6), rate(1.2345)
    ('12,346', '1.23')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _curve(rows: Sequence[Any]) -> list[str]:
    from rillflow.runs.progress.braille_curve import curve

    places = [float(index) for index in range(len(rows))]  # the list is mostly doublings
    values = [speed(row) for row in rows]
    drawn = curve(places, values, width=_WIDTH, height=_HEIGHT, from_zero=True)
    margin = drawn[0].index("┤") + 1
    first, last = str(rows[0].workers), f"{rows[-1].workers} workers"
    title = "updates/s" if rows[0].steps is None else "steps/s"
    axis = " " * margin + first + last.rjust(len(drawn[0]) - margin - len(first))
    return [title, *drawn, axis]
