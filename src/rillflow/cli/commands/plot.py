"""`rillflow plot`: learning curves of one or more runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rillflow.cli.flags.parser import Parser
from rillflow.cli.output.error_messages import Usage

_DESCRIPTION = """\
Draw the learning curves of runs into one picture. Runs that differ in their seed alone are one line
with its 95% band; each environment has a panel."""


def main(arguments: Sequence[str]) -> int:
    """Draw."""
    parser = Parser("plot", _DESCRIPTION)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="directories of runs")
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help=".png, .svg or .pdf (default: curve.png in the run, or here)",
    )
    parser.add_argument(
        "-x", default="steps", metavar="NAME", help="steps, seconds or episodes (default steps)"
    )
    parser.add_argument(
        "-y", default="return", metavar="NAME", help="any figure of metrics.jsonl (default return)"
    )
    options = parser.parse(arguments)
    for run in options.runs:
        if not Path(run).is_dir():
            raise Usage(f"there is no run {run!r}; `rillflow list runs` shows them")
    usual = Path(options.runs[0]) / "curve.png" if len(options.runs) == 1 else Path("curves.png")

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.results import plot_runs

    with notes_as_lines():
        print(plot_runs(options.runs, options.out or usual, x=options.x, y=options.y))
    return 0
