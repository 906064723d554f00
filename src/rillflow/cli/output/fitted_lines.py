"""Lines for a terminal of any width: broken between words, never inside a figure."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator


def fitted(lines: Iterable[str], width: int | None = None) -> list[str]:
    """Lines as they fit; what has no spaces, as a path, is left to the terminal.

    >>> fitted(["goal reached: return 475.0 after 9 s", "  policy  runs/a/policy.npz"], 22)
    ['goal reached: return', '  475.0 after 9 s', '  policy', '    runs/a/policy.npz']

    Args:
        lines: where one begins with two spaces, a label and its value follow.
        width: in characters; by default that of the terminal, and without one no line is broken.
    """
    width = columns() if width is None else width
    if width is None:
        return list(lines)
    return [piece for line in lines for piece in _pieces(line, max(20, width))]


def columns() -> int | None:
    """Of the terminal; None: the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else None


def _pieces(line: str, width: int) -> Iterator[str]:
    if len(line) <= width:
        yield line
        return
    label, gap, value = line.strip().partition("  ")
    if line.startswith("  ") and gap:
        yield f"  {label}"
        yield from _words(f"    {value.strip()}", width, "    ")
    else:
        indent = line[: len(line) - len(line.lstrip())]
        yield from _words(line, width, indent[:4] if indent else "  ")


def _words(text: str, width: int, indent: str) -> list[str]:
    lead = text[: len(text) - len(text.lstrip())][: len(indent)]
    return textwrap.wrap(
        text.strip(),
        width,
        initial_indent=lead,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
