"""What a simulation says: one row per number of workers, as a table or as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class SimulationRow:
    """The flow on one number of virtual workers."""

    workers: int
    throughput: float
    """items per second at the output"""
    steps: float | None
    """steps of environments per second; None: the workers tell none"""
    lag_mean: float
    """staleness: weights messages sent to a worker between a request and its answer, on average"""
    lag_max: int
    operators: dict[str, float]
    """busy share of each operator, of the time of all its shards together; `(messages)` is the
    driver's own work of sending, receiving and scheduling"""
    resources: dict[str, float]
    """busy share of the driver, each group of actors, each background operator, the cores"""
    limit: str | None
    """the resource that limits the throughput; None: nothing is saturated"""
    bottleneck: str
    """one sentence: what limits the throughput"""
    items: int
    seconds: float
    """items at the output and virtual seconds, after the warm-up"""


@dataclass(frozen=True)
class SimulationReport:
    """Predictions for several numbers of workers; `print` it."""

    rows: list[SimulationRow]
    group: str
    cores: int | None
    source: str
    """where the latencies come from"""
    calibration: Any = None
    """what was measured: give it to `simulate` as `latencies` to use it again"""

    def __getitem__(self, workers: int) -> SimulationRow:
        for row in self.rows:
            if row.workers == workers:
                return row
        raise KeyError(
            f"{workers} workers were not simulated; {[r.workers for r in self.rows]} were"
        )

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"group": self.group, "cores": self.cores, "latencies": self.source,
                "rows": [asdict(row) for row in self.rows]}  # fmt: skip

    def __str__(self) -> str:
        cores = "as many cores as needed" if self.cores is None else f"{self.cores} cores"
        parts = [f"Predicted for {self.group!r} on {cores}, with {self.source}.", "", self._table()]
        operators = self._operators()
        if operators:
            parts += ["", "busy, by operator", operators]
        return "\n".join([*parts, "", *limits(self.rows)])

    def _table(self) -> str:
        resources = list(dict.fromkeys(name for row in self.rows for name in row.resources))
        told = any(row.steps is not None for row in self.rows)
        steps = ["steps/s"] if told else []
        lines = [["workers", "items/s", *steps, "lag mean", "lag max", *resources]]
        for row in self.rows:
            shares = [_share(row.resources.get(name)) for name in resources]
            steps = [_rate(row.steps or 0.0)] if told else []
            lines.append([str(row.workers), _rate(row.throughput), *steps, f"{row.lag_mean:.2f}",
                          str(row.lag_max), *shares])  # fmt: skip
        return _columns(lines)

    def _operators(self) -> str:
        names = dict.fromkeys(name for row in self.rows for name in row.operators)
        shown = [n for n in names if any(row.operators.get(n, 0.0) >= 0.005 for row in self.rows)]
        lines = [["workers", *(str(row.workers) for row in self.rows)]]
        lines += [[n, *(_share(row.operators.get(n)) for row in self.rows)] for n in shown]
        return _columns(lines, left=1) if shown else ""


def limits(rows: Sequence[SimulationRow]) -> list[str]:
    """The bottleneck as a sentence, each time it changes with the number of workers."""
    return [
        f"{row.workers} worker{'s'[: row.workers > 1]}: {row.bottleneck}"
        for before, row in zip([None, *rows], rows, strict=False)
        if before is None or before.limit != row.limit
    ]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _columns(lines: Sequence[Sequence[str]], left: int = 0) -> str:
    """Aligned columns: the first `left` to the left, numbers to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
