"""`rillflow simulate`: what an algorithm would do on more workers than there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rillflow.cli.flags.parser import Parser, positive, whole
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.request import Request, add_request_flags, parse_request
from rillflow.files import to_json

_DESCRIPTION = """\
Measure the algorithm for a few seconds on this machine, then run it in virtual time on as many
workers as you ask for: throughput, how busy everything is, what limits it."""


def main(arguments: Sequence[str]) -> int:
    """Measure, then predict."""
    parser = Parser("simulate", _DESCRIPTION, "ALGORITHM [ENV] [--workers LIST] [--FLAG VALUE ...]")
    add_request_flags(parser)
    _add_own_flags(parser)
    request = parse_request(parser, arguments)
    options = request.options
    counts = expand(options.workers)
    cores = _cores(options.cores)
    if options.plot is not None:
        _require_plot(options.plot)

    from rillflow.cli.output.simulation_table import Printer
    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.simulation import simulate

    printer = Printer()

    def on_row(row: Any, report: Any) -> None:
        if options.json:
            print(to_json({"cores": cores, **asdict(row)}), flush=True)
        else:
            printer.print(row, report)

    with notes_as_lines():
        if request.config.num_workers < 1:
            raise Usage("--num-workers 0 steps environments in the driver: nothing to vary")
        flow, group = _flow(request)
        if not options.json:
            print(f"measuring {request.algorithm} on {request.env} for {options.measure:g} s ...")
        report = simulate(
            flow,
            workers=counts,
            cores=cores,
            items=options.updates,
            group=group,
            seed=options.seed,
            measure_seconds=options.measure,
            on_row=on_row,
        )
    if not options.json:
        print("\n".join(printer.conclusion(report.rows)))
    if options.plot is not None:
        _plot(options.plot, request, report, quiet=options.json)
    return 0


def _add_own_flags(parser: Parser) -> None:
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
        help="training results per number of workers (default: as many as 20 answers of each "
        "worker give)",
    )
    own.add_argument("--seed", type=whole(0), default=0, metavar="N", help="(default 0)")
    own.add_argument("--plot", metavar="FILE", help="draw it too: a .png, .svg or .pdf")
    own.add_argument("--json", action="store_true", help="print JSON lines, for machines")


def _flow(request: Request) -> tuple[Any, Any]:
    """The plan as a function of the number of workers; or, behind aggregators, the one flow."""
    from rillflow.learning.config import replaced
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import Workers

    if getattr(request.config, "num_aggregation_workers", 0):
        workers = Workers(request.config)
        return request.module.plan(ParallelRollouts(workers), workers), workers.actors

    def plan(count: int) -> Any:
        workers = Workers(replaced(request.config, {"num_workers": count}))
        return request.module.plan(ParallelRollouts(workers), workers)

    made: Callable[[int], Any] = plan
    return made, None


def _require_plot(path: str) -> None:
    """What would go wrong with the picture goes wrong before the work."""
    from rillflow.arguments import path_ending_in
    from rillflow.results.optional_libraries import needs

    path_ending_in(path, (".png", ".svg", ".pdf"), "a plot")
    needs("matplotlib", "plot", "a plot")


def _plot(path: str, request: Request, report: Any, *, quiet: bool) -> None:
    from rillflow.results.scaling_plot import plot_scaling

    cores = "as many cores as needed" if report.cores is None else f"{report.cores} cores"
    title = f"{request.algorithm} on {request.env}: predicted"
    written = plot_scaling(report.rows, path, title, f"on {cores}, {report.source}")
    if not quiet:
        print(f"\nwritten: {written}")


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
