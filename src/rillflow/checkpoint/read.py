"""Reading one checkpoint: verified first, then built, and safe to do with anybody's file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rillflow.checkpoint import limits, migrate
from rillflow.checkpoint.arrays import Array
from rillflow.checkpoint.decode import decode
from rillflow.checkpoint.errors import CheckpointDamaged, CheckpointError
from rillflow.checkpoint.hashed_files import read_file
from rillflow.checkpoint.manifest import DIRECTORY, MANIFEST, STATE, Manifest, read_manifest
from rillflow.checkpoint.safetensors_format import read_tensors
from rillflow.checkpoint.strict_json import parse_json


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that has been read: every byte of it was compared with its hash."""

    step: int
    state: Any
    facts: dict[str, Any]
    path: Path
    sequence: int
    notes: tuple[str, ...] = ()
    """what a person should know about how it was found, such as newer ones that are damaged"""


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """The checkpoint in this directory, or one error that names the file, expected and found."""
    directory = Path(path)
    if not (directory / MANIFEST).exists():
        raise CheckpointError(_no_checkpoint(directory))
    return load(directory, read_manifest(directory))


def load(directory: Path, manifest: Manifest) -> Checkpoint:
    """The checkpoint that a manifest describes."""
    memory = limits.available_memory()
    if memory is not None and manifest.bytes > memory:
        raise CheckpointError(
            f"{directory} takes {manifest.bytes:,} bytes and {memory:,} bytes of memory are "
            "available: read it on a larger machine."
        )
    file = directory / STATE
    data = read_file(file, manifest.files[STATE], limits.JSON_BYTES)
    arrays: dict[str, Array] = {}
    for name in sorted(manifest.files.keys() - {STATE}):
        found = read_tensors(directory / name, manifest.files[name])
        if not arrays.keys().isdisjoint(found):
            raise CheckpointDamaged(directory / name, "new names of arrays", "one seen before")
        arrays.update(found)
        if len(arrays) > limits.TENSORS:
            raise CheckpointDamaged(directory / name, f"at most {limits.TENSORS:,} arrays", "more")
    tree = migrate.state(file, manifest.format, parse_json(data, file))
    state = decode(tree, arrays, file)
    return Checkpoint(manifest.step, state, manifest.facts, directory, manifest.sequence)


def _no_checkpoint(directory: Path) -> str:
    if not directory.exists():
        return f"there is no checkpoint {str(directory)!r}: no such directory."
    if directory.is_dir():
        inside = sorted(p.name for p in directory.iterdir() if DIRECTORY.fullmatch(p.name))
        if inside:
            return f"{directory} holds several checkpoints; name one of them: {', '.join(inside)}."
    return (
        f"{directory} is not a checkpoint: it has no {MANIFEST}, which is written last. What a "
        "process was writing when it ended is not a checkpoint either."
    )
