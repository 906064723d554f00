"""What a running flow measures, per operator and per place of work."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rillflow.scheduler.times import TimeShare


@dataclass
class NodeStats:
    """Counters of one operator, updated while the run goes on."""

    items: int = 0
    calls: int = 0
    """calls of an operator in the driver"""
    busy: float = 0.0
    """seconds spent in the operator's code, over all its shards"""
    inside: dict[str, float] = field(default_factory=dict)
    """seconds of the operator's parts, as actors tell them"""
    answers: int = 0
    lag_sum: int = 0
    lag_max: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    items_before: int = 0
    """items when the counting of times began"""

    def begin_counting(self) -> None:
        """Times and rates begin anew; what was counted otherwise stays."""
        self.busy, self.calls, self.items_before = 0.0, 0, self.items
        self.inside.clear()


@dataclass(frozen=True)
class OperatorStats:
    """One line of `run.stats()`."""

    name: str
    where: str
    items: int
    rate: float
    """items per second since the first answer"""
    busy: float
    """seconds the operator's code worked, over all shards"""
    utilisation: float
    """busy time over the time available to the operator (all its shards together)"""
    depth: int = 0
    """items waiting in the operator: ready, buffered or queued"""
    capacity: int | None = None
    in_flight: int = 0
    lag_mean: float = 0.0
    lag_max: int = 0
    counters: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceStats:
    """How busy one place of work was: the driver, a group of actors, a background operator."""

    name: str
    count: int
    utilisation: float
    restarts: int = 0
    errors: int = 0


@dataclass(frozen=True, repr=False)
class RunStats:
    """A snapshot of a run."""

    seconds: float
    operators: list[OperatorStats]
    resources: list[ResourceStats]
    verdict: str
    """one sentence: what limits the throughput"""
    driver_waiting: float
    """share of the time in which the driver had nothing to do"""
    counters: dict[str, int]
    times: list[TimeShare] = field(default_factory=list)
    """where the time of the driver went, then that of each group of actors"""
    bottleneck: str | None = None
    """the resource that the verdict names; None: nothing is saturated"""

    @property
    def attributed(self) -> float:
        """Share of the driver's time that is measured: all but what is left for scheduling."""
        own = [t for t in self.times if t.where == "driver" and t.part_of is None]
        return sum(line.share for line in own if line.kind != "rest")

    def operator(self, name: str) -> OperatorStats:
        """The line of one operator."""
        for line in self.operators:
            if line.name == name:
                return line
        raise KeyError(f"no operator {name!r}; there are {[line.name for line in self.operators]}")

    def to_json(self) -> dict[str, Any]:
        """These statistics as plain data."""
        from dataclasses import asdict

        return asdict(self)

    def __str__(self) -> str:
        rows = [("operator", "where", "items", "items/s", "busy", "depth", "in flight", "lag")]
        for o in self.operators:
            depth = f"{o.depth}/{o.capacity}" if o.capacity else str(o.depth or "")
            lag = f"{o.lag_mean:.1f} (max {o.lag_max})" if o.lag_max else ""
            rows.append(
                (
                    o.name,
                    o.where,
                    str(o.items),
                    f"{o.rate:,.0f}",
                    f"{o.utilisation:.0%}",
                    depth,
                    str(o.in_flight or ""),
                    lag,
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, "", *self._where_time_went(), self.verdict])

    __repr__ = __str__  # what is typed at a prompt is looked at, too

    def _repr_html_(self) -> str:  # a notebook shows the table as it would print it
        from html import escape

        style = "font-family:monospace;white-space:pre-wrap"
        return f"<pre style='{style}'>{escape(str(self))}</pre>"

    def _where_time_went(self) -> list[str]:
        """The driver's time in a line; what is below a percent is left out."""
        own = [t for t in self.times if t.where == "driver" and t.share >= 0.01]
        told = [f"{line.share:.0%} {line.name}" for line in sorted(own, key=lambda t: -t.share)]
        return [f"The driver's time: {', '.join(told)}."] if told else []
