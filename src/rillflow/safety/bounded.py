"""Files that anybody may have written: how large they are is checked before they take memory."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

JSON_BYTES = 64 << 20
"""of a text of JSON"""
JSON_VALUES = 4_000_000
"""in one text: an empty list is three bytes in a file, and about eighty in memory"""
JSON_DEPTH = 100
_FEW = 1 << 16
"""bytes of JSON that need no counting: their values are few, and the parser bounds their depth"""
_PIECE = 1 << 20


def available_memory() -> int | None:
    """Bytes that can be had without swapping; None where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        return int(text.split("MemAvailable:")[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        return None


@contextmanager
def regular_file(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], int]]:
    """A file opened for reading, and its size; a pipe or a device is refused, not waited for."""
    with open(path, "rb", opener=_open_at_once) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        yield file, about.st_size


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # or a pipe is waited for until somebody writes


def read_bytes(path: str | os.PathLike[str], most: int = JSON_BYTES) -> bytes:
    """What is in a file; `ValueError` if that is more than `most` bytes."""
    with regular_file(path) as (file, size):
        data = b"" if size > most else file.read(most + 1)  # it may have grown since
    if max(size, len(data)) > most:
        raise ValueError(f"{max(size, len(data)):,} bytes, and at most {most:,} are read")
    return data


def read_json(path: str | os.PathLike[str], most: int = JSON_BYTES) -> Any:
    """The value in a file of JSON; `ValueError` if it is no JSON, or more than we write.

    Args:
        path: the file.
        most: bytes that it may have.
    """
    return parse_json(read_bytes(path, most))


def parse_json(data: bytes) -> Any:
    """The value of a text of JSON; what is too long, too deep or no JSON is a `ValueError`.

    >>> parse_json(b'{"steps": 3}')
    {'steps': 3}
    >>> parse_json(b"[" * 100_000)
    Traceback (most recent call last):
    ValueError: 100,000 levels of JSON, and at most 100 are read
    """
    if len(data) > JSON_BYTES:
        raise ValueError(f"{len(data):,} bytes of JSON, and at most {JSON_BYTES:,} are read")
    if len(data) > _FEW:
        values, depth = _counted(data)
        if values > JSON_VALUES:
            raise ValueError(f"{values:,} values of JSON, and at most {JSON_VALUES:,} are read")
        if depth > JSON_DEPTH:
            raise ValueError(f"{depth:,} levels of JSON, and at most {JSON_DEPTH} are read")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("JSON in more levels than can be read") from None


def _counted(data: bytes) -> tuple[int, int]:
    """Values and levels of a text, from its bytes alone.

    Of a text that is not JSON they mean nothing, but then the parser stops at its first error.
    """
    import numpy as np  # for long texts only: who looks at a small one may do without it

    # with escapes gone, every quote begins or ends a string
    text = np.frombuffer(data.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    values, depth, deepest, inside = 1, 0, 0, 0
    for begin in range(0, len(text), _PIECE):
        piece = text[begin : begin + _PIECE]
        quotes = np.cumsum(piece == ord('"'), dtype=np.int64) + inside
        outside = piece[quotes % 2 == 0]
        inside = int(quotes[-1]) % 2
        opens = (outside == ord("[")) | (outside == ord("{"))
        closes = (outside == ord("]")) | (outside == ord("}"))
        levels = np.cumsum(opens.astype(np.int64) - closes)
        values += int(np.count_nonzero(opens)) + int(np.count_nonzero(outside == ord(",")))
        deepest = max(deepest, depth + int(levels.max(initial=0)))
        depth += int(levels[-1]) if levels.size else 0
    return values, deepest
