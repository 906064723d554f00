"""What all benchmarks share: a figure, interleaved repeats, medians, and the report of a question.

A question is a script with a docstring (its first line is the question), `MINUTES = n` (how long a
full run takes at most; `suite.py` finds questions by it) and

    def ask(report: Report) -> None: ...

    if __name__ == "__main__":
        sys.exit(script(__file__, ask))

`ask` reads `report.options`, keeps each single measurement with `report.measured(case, round=...)`,
tells what could not be measured with `report.lacks(peer, reason)`, and draws conclusions with
`report.add(figure(...))` or `report.add(ratio(...))`. The result is one JSON document.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import _machine

T = TypeVar("T")
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One measured number and, if there is one, the bar it has to meet."""

    benchmark: str
    value: float
    unit: str
    bar: str | None = None
    """as a person reads it, e.g. ">= 0.95"; None: for reference only"""
    ok: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))


def figure(
    benchmark: str, value: float, unit: str, bar: str | None = None, **details: Any
) -> Figure:
    """A figure, held against its bar: an operator and a number."""
    ok = None
    if bar is not None:
        operator, limit = bar.split()
        compare = {"<=": float.__le__, "<": float.__lt__, ">=": float.__ge__}[operator]
        ok = compare(float(value), float(limit))
    return Figure(benchmark, significant(value), unit, bar, ok, details)


def ratio(
    benchmark: str,
    above: Sequence[float | None],
    below: Sequence[float | None],
    unit: str,
    bar: str | None = None,
    **details: Any,
) -> Figure | None:
    """The median of the ratios of pairs that were measured beside each other; None: no whole pair.

    >>> ratio("speed", [30, 28, None], [10, 14, 9], "peer's seconds / ours", ">= 2").value
    2.5
    """
    pairs = [(a, b) for a, b in zip(above, below, strict=False) if a is not None and b]
    if not pairs:
        return None
    ratios = [a / b for a, b in pairs]
    medians = {
        name: significant(statistics.median(pair[side] for pair in pairs))
        for side, name in enumerate(("above", "below"))
    }
    rounded = [significant(value) for value in ratios]
    return figure(
        benchmark, statistics.median(ratios), unit, bar, **medians, pairs=rounded, **details
    )


def significant(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")


def interleaved(contestants: Sequence[Callable[[], T]], repeats: int) -> list[list[T]]:
    """Run the contestants in turn, `repeats` times, so that a slow moment hits all of them.

    Every second round goes backwards: nobody always runs right after the same other one.
    """
    results: list[list[T]] = [[] for _ in contestants]
    for round_ in range(repeats):
        order = range(len(contestants))
        for i in order if round_ % 2 == 0 else reversed(order):
            results[i].append(contestants[i]())
    return results


class Took(float):
    """Seconds on the wall, and the processor time this thread used in them."""

    cpu: float


def seconds_for(step: Callable[[], object], items: int) -> Took:
    """How long `items` calls of `step` take."""
    began, cpu = time.perf_counter(), time.thread_time()
    for _ in range(items):
        step()
    took = Took(time.perf_counter() - began)
    took.cpu = time.thread_time() - cpu
    return took


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Throughput of ours over theirs, from seconds measured side by side."""
    return statistics.median(t / o for o, t in zip(ours, theirs, strict=True))


def load() -> float:
    """How busy the machine was in the last minute, for the reader of a strange figure."""
    return round(os.getloadavg()[0], 2)


# --- the report of a question ---------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """How a question is asked."""

    quick: bool = False
    """short runs that show that everything works; the figures mean little"""
    repeats: int = 3
    """of each measurement"""
    peers: tuple[str, ...] | None = None
    """which peers to measure; None: those that the question is about"""


@dataclass
class Report:
    """What became of a question: everything measured, what is missing, and the figures."""

    question: str
    asks: str
    options: Options = field(default_factory=Options)
    settings: dict[str, Any] = field(default_factory=dict)
    """seeds, sizes, limits: whatever somebody needs who wants to repeat it"""
    versions: dict[str, str] = field(default_factory=_machine.versions)
    measurements: list[dict[str, Any]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=_machine.facts)
    began: float = field(default_factory=time.time)

    def measured(self, case: str, **fields: Any) -> dict[str, Any]:
        """Keep a single measurement."""
        self.measurements.append({"case": case, **fields})
        return self.measurements[-1]

    def values(self, case: str, name: str) -> list[float | None]:
        """One number of a case, in each round; None where it was not measured."""
        return [row.get(name) for row in self.measurements if row["case"] == case]

    def lacks(self, what: str, reason: str) -> None:
        """Tell what could not be measured; the first reason is kept."""
        self.missing.setdefault(what, reason)

    def add(self, figure: Figure | None, otherwise: str | None = None) -> None:
        """Conclude; `otherwise` names the figure that could not be had."""
        if figure is not None:
            self.figures.append(figure)
        elif otherwise is not None:
            self.lacks(otherwise, "there is no pair of measurements")

    def document(self) -> dict[str, Any]:
        """Everything, as JSON holds it."""
        return {
            "question": self.question,
            "asks": self.asks,
            "quick": self.options.quick,
            "date": time.strftime("%Y-%m-%d", time.gmtime(self.began)),
            "seconds": round(time.time() - self.began, 1),
            "machine": {**self.machine, "load_after": load()},
            "versions": self.versions,
            "settings": {"repeats": self.options.repeats, **self.settings},
            "figures": [asdict(figure) for figure in self.figures],
            "missing": self.missing,
            "measurements": self.measurements,
        }

    def table(self) -> str:
        """The figures for a person."""
        rows = [("figure", "value", "bar", "met")]
        for found in self.figures:
            met = {None: "", True: "yes", False: "NO"}[found.ok]
            rows.append((found.benchmark, f"{found.value:g} {found.unit}", found.bar or "", met))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines += [f"missing: {what}: {reason}" for what, reason in self.missing.items()]
        note = " (quick: the figures mean little)" if self.options.quick else ""
        load_before = self.machine["load_before"]
        return "\n".join([f"{self.asks}{note}", f"load before: {load_before}", *lines])


def end_cleanly() -> None:
    """Let SIGTERM end the program as Ctrl-C does: what was started is ended first."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def script(file: str, ask: Callable[[Report], None], repeats: int = 3) -> int:
    """The program of a question: its options, its report on stdout, a table on stderr."""
    asks = (ast.get_docstring(ast.parse(Path(file).read_text())) or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=asks)
    parser.add_argument("--quick", action="store_true", help="short runs, to see that they work")
    parser.add_argument("--json", action="store_true", help="only the document, without the table")
    parser.add_argument("--repeats", type=int, help=f"of each measurement; by default {repeats}")
    parser.add_argument("--peers", metavar="A,B", help="which peers to measure; '' for none")
    parser.add_argument("--save", metavar="FILE", type=Path, help="write the document there too")
    given = parser.parse_args()
    peers = None if given.peers is None else tuple(filter(None, given.peers.split(",")))
    times = given.repeats or (1 if given.quick else repeats)
    report = Report(Path(file).stem, asks, Options(given.quick, max(1, times), peers))
    end_cleanly()
    ask(report)
    text = json.dumps(report.document(), indent=1, ensure_ascii=False)
    print(text)
    if given.save is not None:
        given.save.parent.mkdir(parents=True, exist_ok=True)
        given.save.write_text(text + "\n")
    if not given.json:
        print(report.table(), file=sys.stderr)
    return 0
