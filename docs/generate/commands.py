"""The reference of the command line: what `--help` says."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence

WIDTH = "96"


def reference() -> str:
    """Every command, in the groups of `rillflow --help`."""
    from rillflow.cli.commands import GROUPS

    pieces = [f"```text\n{shown([])}\n```"]
    for title, group in GROUPS.items():
        pieces.append(f"## {title[0].upper()}{title[1:]}")
        for name, about in group.items():
            sentence = f"{about[0].upper()}{about[1:]}."
            pieces.append(
                f"### rillflow {name}\n\n{sentence}\n\n```text\n{shown([name, '--help'])}\n```"
            )
            if name == "train":
                pieces.append(
                    "Every setting of an algorithm is a flag as well:\n\n"
                    f"```text\n{shown(['train', 'ppo', '--help'])}\n```"
                )
    return "\n\n".join(pieces)


def shown(arguments: Sequence[str]) -> str:
    """What the command prints."""
    from rillflow.cli.main import main

    output = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
            main(list(arguments))
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return output.getvalue().strip()
