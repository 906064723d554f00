"""Small files that are replaced as a whole, and JSON that every reader accepts."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rillflow.safety import bounded

_LARGEST = 16 << 20
"""bytes of a file of a run's directory that is read as a whole"""


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Replace a file: a reader sees the old one or the new one, never half of it.

    A durable one is the new one even if the machine loses its power a moment later.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_json(
    path: Path, data: Mapping[str, Any], *, indent: int | None = None, durable: bool = False
) -> None:
    """Replace a file by an object of JSON."""
    write_text(path, to_json(data, indent=indent) + "\n", durable=durable)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is none that can be read."""
    try:
        content = bounded.read_json(path, _LARGEST)
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def to_json(data: Any, *, indent: int | None = None) -> str:
    """Strict JSON: what is not a finite number becomes null, what is NumPy's becomes Python's.

    >>> to_json({"return": float("nan"), "steps": 3})
    '{"return": null, "steps": 3}'
    """
    return json.dumps(plain(data), indent=indent, allow_nan=False, default=_converted)


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
