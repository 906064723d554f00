"""Formats of checkpoints, and how an older one becomes the next.

What never changes: a directory with a `manifest.json` that ends with its own hash, has a `format`,
and lists every file with size and SHA-256. All else may; then `FORMAT` goes up by one, and
`MIGRATIONS` gets an entry that makes the new form of what the format before had.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rillflow.checkpoint.errors import CheckpointDamaged, UnknownFormat

FORMAT = 1


class Migration(NamedTuple):
    """From one format to the next, both as parsed JSON, before anything is built from it."""

    manifest: Callable[[dict[str, Any]], dict[str, Any]]
    state: Callable[[Any], Any]


MIGRATIONS: dict[int, Migration] = {}
"""by the format that they begin from"""


def manifest(path: Path, body: dict[str, Any]) -> dict[str, Any]:
    """A manifest in today's form; its `format` remains the one it was written in."""
    number = body.get("format")
    if type(number) is not int or number < 0:
        raise CheckpointDamaged(path, "the number of a format", repr(number)[:60])
    for migration in _way(path, number):
        body = migration.manifest(body)
    return {**body, "format": number}


def state(path: Path, number: int, tree: Any) -> Any:
    """A state, as JSON, in today's form."""
    for migration in _way(path, number):
        tree = migration.state(tree)
    return tree


def _way(path: Path, number: int) -> list[Migration]:
    if number > FORMAT:
        raise UnknownFormat(
            f"{path} has format {number}, and this rillflow reads formats up to {FORMAT}: read it "
            "with the version that wrote it, or a newer one."
        )
    missing = [step for step in range(number, FORMAT) if step not in MIGRATIONS]
    if missing:
        raise UnknownFormat(
            f"{path} has format {number}, and this rillflow knows no way from format {missing[0]} "
            f"to {missing[0] + 1}: read and save it with an older version first."
        )
    return [MIGRATIONS[step] for step in range(number, FORMAT)]
