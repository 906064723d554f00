"""Files of a run that somebody else writes: replaced now and then, or growing line by line.

A link is not followed, a pipe is not waited for, and nothing takes more memory than it may.
"""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

from rillflow.web.curve import Curve

Json = dict[str, Any]
_LARGEST = 16_000_000
_CHUNK, _LONGEST_LINE = 1_000_000, 1_000_000
BUDGET = 0.3
"""seconds one answer may spend on rows it has not seen; a long file takes several answers"""


class Document:
    """One JSON object in a file that is replaced now and then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = ""
        self.content: Json = {}
        self._bad = ""

    def refresh(self) -> None:
        """Read it again if it has changed; a broken one is as if it had not."""
        with opened(self.path) as file:
            version = file.version
            if not version or version in (self.version, self._bad) or file.size > _LARGEST:
                return
            try:
                text = file.read(_LARGEST)
                content = json.loads(text, parse_constant=_nothing, parse_float=_finite)
            except (ValueError, RecursionError):
                content = None
            if isinstance(content, dict):
                self.version, self.content = version, content
            else:
                self._bad = version


class Rows:
    """Follows a file of rows, one JSON object a line."""

    def __init__(self, path: Path, points: int = 300, figures: int = 64) -> None:
        self.path = path
        self._size = {"points": points, "figures": figures}
        self.curve = Curve(**self._size)
        self.read = 1.0
        """the share of the file that has been read"""
        self._at, self._rest, self._inode, self._turn = 0, b"", 0, 0

    @property
    def version(self) -> str:
        """Changes with every row."""
        return f"{self._turn}-{self.curve.rows}"

    def refresh(self, budget: float | None = None) -> None:
        """Take in what has been appended, for so many seconds at most."""
        with opened(self.path) as file:
            if not file.version:
                return
            if file.size < self._at or file.inode != self._inode:  # another file: begin again
                self.curve, self._at, self._rest = Curve(**self._size), 0, b""
                self._inode, self._turn = file.inode, self._turn + 1
            file.seek(self._at)
            until = time.monotonic() + (BUDGET if budget is None else budget)
            while self._at < file.size and time.monotonic() < until:
                data = file.read(_CHUNK)
                if not data:
                    break
                self._at += len(data)
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    self._take(line)
                if len(self._rest) > _LONGEST_LINE:
                    self._rest = b"!"  # its end will make no valid row either
            self.read = min(1.0, self._at / file.size) if file.size else 1.0

    def _take(self, line: bytes) -> None:
        try:
            row = json.loads(line, parse_constant=_nothing)
        except (ValueError, RecursionError):
            return
        if isinstance(row, dict):
            self.curve.add(row)


class opened:  # noqa: N801 - used as a statement
    """A plain file of the directory, opened so that neither a link nor a pipe is followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version, self.size, self.inode = "", 0, 0
        self._fd = -1

    def __enter__(self) -> opened:
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return self
        about = os.fstat(self._fd)
        if stat.S_ISREG(about.st_mode):
            self.size, self.inode = about.st_size, about.st_ino
            self.version = f"{about.st_mtime_ns:x}-{about.st_size:x}-{about.st_ino:x}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def seek(self, at: int) -> None:
        """Go to a place."""
        os.lseek(self._fd, at, os.SEEK_SET)

    def read(self, most: int) -> bytes:
        """Up to so many bytes."""
        parts, left = [], most
        while left > 0 and (part := os.read(self._fd, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


def _nothing(_: str) -> None:
    """NaN and the infinities, which no other reader of JSON knows."""


def _finite(text: str) -> float | None:
    number = float(text)
    return number if abs(number) < 1e300 else None
