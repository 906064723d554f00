"""`rillflow pack`: a run in one file, with a model card."""

from __future__ import annotations

from collections.abc import Sequence

from rillflow.cli.flags.parser import Parser

_DESCRIPTION = """\
Write a run into one file, to keep or to hand on: its policies, and a card with settings, learning
curve, figures and film, if there is one. `evaluate`, `record` and `unpack` read it."""


def main(arguments: Sequence[str]) -> int:
    """Pack."""
    parser = Parser("pack", _DESCRIPTION)
    parser.add_argument("run", metavar="RUN", help="a run's directory")
    parser.add_argument("-o", "--out", metavar="FILE", help=".rill (default RUN.rill)")
    options = parser.parse(arguments)

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.results.pack import pack_run, size_of
    from rillflow.results.unpack import read_card

    with notes_as_lines():
        path = pack_run(options.run, options.out)
    contents = ", ".join(read_card(path)["contents"])
    print(f"{path}\n  {size_of(path)}: card.md, run.json, {contents}")
    return 0
