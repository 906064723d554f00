"""JSON from strangers: bounded before it is parsed, and nothing beyond the standard in it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.checkpoint import limits
from rillflow.checkpoint.errors import CheckpointDamaged


def to_json(value: Any) -> bytes:
    """Compact JSON; the same value gives the same bytes."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def parse_json(data: bytes, file: Path | str, *, objects: int | None = None) -> Any:
    """The value, or `CheckpointDamaged`; at most `objects` JSON objects in it."""
    problem = excess(data, objects)
    if problem is not None:
        raise CheckpointDamaged(file, *problem)
    try:
        return json.loads(
            data, object_pairs_hook=_object, parse_float=_float, parse_constant=_constant
        )
    except (ValueError, RecursionError) as error:
        raise CheckpointDamaged(file, "JSON", str(error)) from None


def excess(data: bytes, objects: int | None = None) -> tuple[str, str] | None:
    """What was expected and what was found, if this is more than a parser should be given.

    Counted from the bytes alone. In a text that is not JSON the counts mean nothing, but then the
    parser stops at its first error.
    """
    if len(data) > limits.JSON_BYTES:
        return f"at most {limits.JSON_BYTES:,} bytes of JSON", f"{len(data):,}"
    nodes = begun = depth = deepest = 0
    for marks in _marks(data):
        levels = np.cumsum(_LEVELS[marks], dtype=np.int32)
        nodes += int(np.count_nonzero(_BEGINS[marks]))
        begun += int(np.count_nonzero(marks == ord("{")))
        deepest = max(deepest, depth + int(levels.max(initial=0)))
        depth += int(levels[-1]) if levels.size else 0
    if nodes > limits.JSON_NODES:
        return f"at most {limits.JSON_NODES:,} values", f"{nodes:,}"
    if objects is not None and begun > objects:
        return f"at most {objects:,} JSON objects", f"{begun:,}"
    if deepest > limits.JSON_DEPTH:
        return f"at most {limits.JSON_DEPTH} levels of JSON", f"{deepest:,}"
    return None


def _marks(data: bytes) -> Iterator[NDArray[np.uint8]]:
    """The brackets and commas outside of strings, in pieces."""
    # with escapes gone, every quote begins or ends a string
    text = np.frombuffer(data.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    inside = 0
    for begin in range(0, len(text), _PIECE):
        piece = text[begin : begin + _PIECE]
        # the number of quotes so far, of which only the last bit matters
        quotes = np.cumsum(piece == ord('"'), dtype=np.uint8) + np.uint8(inside)
        yield piece[_IS_MARK[piece] & (quotes & 1 == 0)]
        inside = int(quotes[-1]) & 1


def _table(values: dict[str, int], dtype: type) -> NDArray[Any]:
    table: NDArray[Any] = np.zeros(256, dtype)
    for character, value in values.items():
        table[ord(character)] = value
    return table


_PIECE = 1 << 20
_IS_MARK = _table(dict.fromkeys("[]{},", 1), np.bool_)
_BEGINS = _table(dict.fromkeys("[{,", 1), np.bool_)
"""each value but the first of a text comes after one of these"""
_LEVELS = _table({"[": 1, "{": 1, "]": -1, "}": -1}, np.int8)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object with the same name twice")
    return value


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"a number too large for a float, {text[:40]}")
    return value


def _constant(text: str) -> Any:
    raise ValueError(f"{text}, which is not JSON")
