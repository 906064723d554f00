"""`rillflow plot`: learning curves of one or more runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rillflow.cli.flags.parser import Parser
from rillflow.cli.flags.runs_named import add_runs, named_runs

_DESCRIPTION = """\
Draw the learning curves of runs into one picture. Runs that differ in their seed alone are one line
with its 95% band, named by what differs; each environment has a panel."""


def main(arguments: Sequence[str]) -> int:
    """Draw."""
    parser = Parser("plot", _DESCRIPTION)
    add_runs(parser)
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
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="TEXT",
        help="name of its line, once for each RUN; runs of one name are one line",
    )
    parser.add_argument(
        "--group-by",
        metavar="NAMES",
        help="settings, such as lr,hidden: runs that agree in these are one line; run: each alone "
        "(default all settings but the seed)",
    )
    options = parser.parse(arguments)
    runs, labels = named_runs(options.runs, options.label)
    group_by = [name for name in (options.group_by or "").replace("-", "_").split(",") if name]
    usual = runs[0] / "curve.png" if len(runs) == 1 else Path("curves.png")

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.results import plot_runs

    with notes_as_lines():
        how = {"x": options.x, "y": options.y, "labels": labels, "group_by": group_by}
        print(plot_runs(runs, options.out or usual, **how))
    return 0
