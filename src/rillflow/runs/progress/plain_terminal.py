"""Output on terminals that know only ASCII: what cannot be written is drawn with what can."""

from __future__ import annotations

import codecs
import sys
import unicodedata
from typing import Any

NAME = "rillflow-plain"
_DRAWN = {
    "─": "-", "━": "=", "┄": "-", "│": "|", "┃": "|", "┤": "+", "├": "+", "┼": "+", "└": "`",
    "╰": "`", "┌": "+", "┐": "+", "┘": "+", "█": "#", "▒": "=", "░": ".", "·": "-",
    "\N{MULTIPLICATION SIGN}": "x",
    "…": "...", "→": "->", "←": "<-", "↑": "^", "↓": "v",
    "≤": "<=", "≥": ">=", "±": "+-", "µ": "u", "°": "deg",
    "\N{EN DASH}": "-", "—": "-", "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'", "“": '"', "”": '"', "•": "*", "✓": "+", "✗": "x",
    "\N{NO-BREAK SPACE}": " ",
}  # fmt: skip
_BRAILLE, _DENSER = 0x2800, " ..::**##"
"""dots of a curve, by how many there are in a character"""


def never_fail() -> None:
    """Let standard output and standard error write everything, in whatever encoding they have."""
    codecs.register_error(NAME, _instead)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=NAME)


def plain(text: str) -> str:
    """Text in ASCII.

    >>> plain("└─ 2 \\u00d7 worker …"), plain("\\u28ff\\u2800\\u2801"), plain("naïve 漢")
    ('`- 2 x worker ...', '# .', 'naive ?')
    """
    return "".join(letter if letter.isascii() else _letter(letter) for letter in text)


def _letter(letter: str) -> str:
    if letter in _DRAWN:
        return _DRAWN[letter]
    dots = ord(letter) - _BRAILLE
    if 0 <= dots < 256:
        return _DENSER[dots.bit_count()]
    without_marks = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return without_marks or "?"


def _instead(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found: Any = plain(error.object[error.start : error.end])
    return found, error.end
