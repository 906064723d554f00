"""`rillflow unpack`: a packed run as a directory again."""

from __future__ import annotations

from collections.abc import Sequence

from rillflow.cli.flags.parser import Parser

_DESCRIPTION = """\
Write a packed run into a directory, where it can be evaluated, filmed, plotted and viewed. The file
may come from anybody: nothing in it is run or imported."""


def main(arguments: Sequence[str]) -> int:
    """Unpack."""
    parser = Parser("unpack", _DESCRIPTION)
    parser.add_argument("file", metavar="FILE", help="what `rillflow pack` wrote")
    parser.add_argument(
        "-o", "--out", metavar="DIR", help="a new directory (default: FILE without its ending)"
    )
    parser.add_argument("--card", action="store_true", help="print the card, and write nothing")
    options = parser.parse(arguments)

    from rillflow.results.unpack import card_text, unpack_run

    if options.card:
        print(card_text(options.file), end="")
        return 0
    directory = unpack_run(options.file, options.out)
    print(
        f"{directory}\n  its card: {directory / 'card.md'}\n  next: rillflow evaluate {directory}"
    )
    return 0
