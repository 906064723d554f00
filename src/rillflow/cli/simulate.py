"""`rillflow simulate`: what an algorithm would do on more workers than there are."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from rillflow.cli.parser import Parser, positive, whole
from rillflow.cli.problems import Usage
from rillflow.cli.request import add_request_flags, parse_request

_BUDGET = 4.0
"""seconds that the driver's operators may really work for one number of workers"""

_DESCRIPTION = """\
Measure the algorithm for a few seconds on this machine, then run it in virtual time on as many
workers as you ask for: throughput, how busy everything is, what limits it."""


def main(arguments: Sequence[str]) -> int:
    """Measure, then predict."""
    parser = Parser("simulate", _DESCRIPTION, "ALGORITHM [ENV] [--workers LIST] [--FLAG VALUE ...]")
    add_request_flags(parser)
    own = parser.add_argument_group("the simulation")
    own.add_argument(
        "--workers",
        default="1,2,4,...,64",
        metavar="LIST",
        help="numbers of workers; `...` goes on by doubling (default 1,2,4,...,64)",
    )
    own.add_argument(
        "--cores",
        default="needed",
        metavar="N",
        help="that workers and driver share; needed: as many as they need, as on a "
        "cluster; here: those of this machine (default needed)",
    )
    own.add_argument(
        "--measure",
        type=positive,
        default=3.0,
        metavar="SECONDS",
        help="how long to measure (default 3)",
    )
    own.add_argument(
        "--updates",
        type=whole(1),
        metavar="N",
        help="training results per number of workers (default: as many as take a few seconds)",
    )
    own.add_argument("--seed", type=whole(0), default=0, metavar="N", help="(default 0)")
    own.add_argument("--json", action="store_true", help="print JSON lines, for machines")
    request = parse_request(parser, arguments)
    options = request.options
    counts = expand(options.workers)
    cores = _cores(options.cores)

    from rillflow.cli.notes import notes_as_lines
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import Workers

    with notes_as_lines():
        if request.config.num_workers < 1:
            raise Usage("--num-workers 0 steps environments in the driver: nothing to vary")
        workers = Workers(request.config)
        flow = request.module.plan(ParallelRollouts(workers), workers)
        if not options.json:
            print(f"measuring {request.algorithm} on {request.env} for {options.measure:g} s ...")
        _warn_of_large_rounds(flow, request.config, counts)
        cost = _warm_up(flow, options.seed)
        rows = list(_rows(flow, workers, counts, cores, options, cost))
    if not options.json:
        print("\n".join(_conclusion(rows)))
    return 0


def _warm_up(flow: Any, seed: int) -> float:
    """Two results in this process: importing torch is not measured as learning. Seconds of one."""
    with flow.run("sim", seed=seed) as run:
        next(run)
        begin = time.monotonic()
        next(run)
        return time.monotonic() - begin


def _is_barrier(flow: Any) -> bool:
    """Whether results come once a round of all workers, or once for each of their answers."""
    return any(box.get("barrier") for box in flow.to_json()["nodes"])


def _warn_of_large_rounds(flow: Any, config: Any, counts: list[int]) -> None:
    """A learner's time is taken as measured, also where its batches would be larger."""
    rows = counts[-1] * config.fragment_steps
    wanted = getattr(config, "train_batch_size", rows)
    if _is_barrier(flow) and rows > wanted:
        warnings.warn(
            f"a round of {counts[-1]} workers has {rows:,} rows, and the learner is predicted to "
            f"take as long as for {wanted:,}: smaller --num-envs-per-worker or "
            "--rollout-fragment-length keep them equal",
            stacklevel=2,
        )


def _updates(count: int, cost: float, *, barrier: bool) -> int:
    """Results that show the steady state, without really training for minutes."""
    least, most = (4, 300) if barrier else (8 * count, max(300, 30 * count))
    return min(most, max(least, int(_BUDGET / max(cost, 1e-6))))


def _rows(
    flow: Any, workers: Any, counts: list[int], cores: int | None, options: Any, cost: float
) -> Iterator[Any]:
    """One prediction after the other, each printed as soon as it is known."""
    from rillflow.simulation import simulate

    latencies: Any = "measured"
    table: Table | None = None
    barrier = _is_barrier(flow)
    for count in counts:
        items = options.updates or _updates(count, cost, barrier=barrier)
        begin = time.monotonic()
        report = simulate(
            flow,
            workers=[count],
            latencies=latencies,
            cores=cores,
            items=items,
            group=workers.actors,
            seed=options.seed,
            measure_seconds=options.measure,
        )
        if latencies is report.calibration:  # otherwise it was measured meanwhile
            cost = (time.monotonic() - begin) / items
        latencies = report.calibration
        (row,) = report.rows
        if options.json:
            print(json.dumps({"cores": cores, **report.to_json()["rows"][0]}), flush=True)
        else:
            if table is None:
                told = "as many cores as needed" if cores is None else f"{cores} cores"
                print(f"on {told}, with {report.source}\n", flush=True)
                table = Table(row)
            table.print(row)
        yield row


class Table:
    """Rows of predictions in columns, printed one by one."""

    def __init__(self, first: Any) -> None:
        self.first = first
        self.resources = list(first.resources)
        heads = ["workers", "updates/s", "speed-up", "staleness", *self.resources]
        self.widths = [max(len(head), 8) for head in heads]
        self._line(heads)

    def print(self, row: Any) -> None:
        """One number of workers."""
        faster = row.throughput / self.first.throughput if self.first.throughput else 0.0
        shares = [f"{row.resources.get(name, 0.0):.0%}" for name in self.resources]
        self._line(
            [
                str(row.workers),
                _rate(row.throughput),
                f"{faster:.1f}",
                f"{row.lag_mean:.1f}",
                *shares,
            ]
        )

    def _line(self, cells: list[str]) -> None:
        pairs = zip(cells, self.widths, strict=True)
        print("  ".join(cell.rjust(width) for cell, width in pairs), flush=True)


def _conclusion(rows: list[Any]) -> list[str]:
    """The curve, and what limits it, each time that changes."""
    from rillflow.cli.braille import curve

    lines = [""]
    if len(rows) > 2:
        lines.append("updates/s")
        places = [float(index) for index in range(len(rows))]  # the list is mostly doublings
        drawn = curve(places, [row.throughput for row in rows], width=64, height=8, from_zero=True)
        margin = drawn[0].index("┤") + 1
        first, last = str(rows[0].workers), f"{rows[-1].workers} workers"
        lines += [*drawn, " " * margin + first + last.rjust(64 - margin - len(first)), ""]
    before = ""
    for row in rows:
        subject = row.bottleneck.split(",")[0]
        if subject != before:
            lines.append(f"{row.workers} worker{'s'[: row.workers > 1]}: {row.bottleneck}")
        before = subject
    return lines


def expand(text: str) -> list[int]:
    """Numbers of workers from a list in which `...` goes on by doubling.

    >>> expand("1,2,4,...,64"), expand("3,...,20")
    ([1, 2, 4, 8, 16, 32, 64], [3, 6, 12, 20])
    """
    found: list[int] = []
    parts = [part.strip() for part in text.replace("…", "...").split(",") if part.strip()]
    for index, part in enumerate(parts):
        if part == "..." and 0 < index < len(parts) - 1:
            last = _count(parts[index + 1])
            while found[-1] * 2 < last:
                found.append(found[-1] * 2)
        else:
            found.append(_count(part))
    if not found:
        raise Usage("--workers is empty; write it as 1,2,4,...,256")
    if found != sorted(set(found)):
        raise Usage(f"--workers must rise, got {text!r}; write it as 1,2,4,...,256")
    return found


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise Usage(f"--workers: {text!r} is no number of workers; write it as 1,2,4,...,256")
    return int(text)


def _cores(text: str) -> int | None:
    if text in ("needed", "none"):
        return None
    if text == "here":
        return os.cpu_count()
    if not text.isdecimal() or int(text) < 1:
        raise Usage(f"--cores is a number, `needed` or `here`; got {text!r}")
    return int(text)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
