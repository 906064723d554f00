"""Files that are replaced as a whole or not at all, and JSON that every reader accepts.

Checkpoints have more to promise, and their own writer: `checkpoint/hashed_files.py`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rillflow.errors import RunError


@contextmanager
def replaced(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """A file to write beside `path` (same ending); it takes that name when all went well.

    A reader sees the old file or the new one, never half of it. If something is raised meanwhile
    the new one is removed, and the old one stays. A durable file is the new one even if the machine
    loses its power a moment later.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        yield part
        if durable:
            with part.open("rb") as file:
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """As `replaced`, with the folder made; a disk that is full is told in one sentence."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as part:
            yield part
    except OSError as error:
        kept = "what was there before is kept" if path.exists() else "nothing of it is left"
        why = error.strerror or error
        raise RunError(f"{str(path)!r} could not be written ({why}): {kept}.") from error


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Replace a file by a text."""
    with replaced(path, durable=durable) as part:
        part.write_text(text, encoding="utf-8")


def write_json(
    path: Path, data: Mapping[str, Any], *, indent: int | None = None, durable: bool = False
) -> None:
    """Replace a file by an object of JSON."""
    write_text(path, to_json(data, indent=indent) + "\n", durable=durable)


def to_json(data: Any, *, indent: int | None = None, compact: bool = False) -> str:
    """Strict JSON: what is not a finite number becomes null, what is NumPy's becomes Python's.

    >>> to_json({"return": float("nan"), "steps": 3})
    '{"return": null, "steps": 3}'
    """
    separators = (",", ":") if compact else None
    return json.dumps(
        plain(data), indent=indent, separators=separators, allow_nan=False, default=_converted
    )


def plain(value: Any) -> Any:
    """The same, with null for what is not a finite number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def _converted(value: Any) -> Any:
    item = getattr(value, "item", None)  # a number of NumPy or torch
    return plain(item()) if callable(item) else str(value)
