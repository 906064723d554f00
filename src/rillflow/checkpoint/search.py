"""Finding the newest checkpoint that is whole: the one written last, not the highest step.

A run that goes on from an older step leaves newer steps of its abandoned past in the directory;
the order of writing tells them apart.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

from rillflow.checkpoint.errors import CheckpointDamaged, NoValidCheckpoint, UnknownFormat
from rillflow.checkpoint.manifest import DIRECTORY, Manifest, read_manifest
from rillflow.checkpoint.read import Checkpoint, load

QUARANTINE = "quarantine"
LATEST = "LATEST"
Reject = Callable[[Path, CheckpointDamaged | UnknownFormat], None]


def checkpoints_in(directory: Path, reject: Reject) -> list[tuple[Path, Manifest]]:
    """Every checkpoint with a sound manifest, the newest first."""
    found = []
    names = sorted(entry.name for entry in os.scandir(directory)
                   if DIRECTORY.fullmatch(entry.name)
                   and entry.is_dir(follow_symlinks=False))  # fmt: skip
    for name in names:
        try:
            found.append((directory / name, read_manifest(directory / name)))
        except (CheckpointDamaged, UnknownFormat) as error:
            reject(directory / name, error)
    return sorted(found, key=lambda pair: pair[1].sequence, reverse=True)


def find_newest(
    directory: Path, reject: Reject, wanted: Callable[[Path, Manifest], bool] | None = None
) -> Checkpoint | None:
    """The newest checkpoint of which every byte is right; the others are given to `reject`.

    Args:
        directory: of the store.
        reject: told of each that is damaged.
        wanted: whether one may be taken at all.
    """
    for path, manifest in checkpoints_in(directory, reject):
        if wanted is not None and not wanted(path, manifest):
            continue
        try:
            return load(path, manifest)
        except (CheckpointDamaged, UnknownFormat) as error:
            reject(path, error)
    return None


_LOOKS = 100
"""at a folder whose writer is quicker than we are, before we give up"""


def newest_checkpoint(directory: str | os.PathLike[str]) -> Checkpoint | None:
    """The newest valid checkpoint of a store, for readers: nothing is locked, moved or changed.

    It may be called while a run writes there. `notes` says which ones had to be passed over.
    """
    folder = Path(directory)
    if not folder.is_dir():
        return None
    quiet = 0
    for _ in range(_LOOKS):  # a writer may have removed all that we saw, after writing newer ones
        notes: list[str] = []
        gone: list[Path] = []

        def reject(path: Path, error: Exception, notes: list[str] = notes,
                   gone: list[Path] = gone) -> None:  # fmt: skip
            if path.exists():
                notes.append(f"passed over {path.name}: {error}")
            else:
                gone.append(path)

        found = find_newest(folder, reject)
        if found is not None:
            return dataclasses.replace(found, notes=tuple(notes))
        quiet += not gone
        if quiet == 3:  # one listing beside a writer may show neither the old nor the new one
            break
    if notes:
        raise none_valid(folder, notes)
    return None


def none_valid(directory: Path, notes: list[str]) -> NoValidCheckpoint:
    """There is something, and nothing of it can be used: a person has to decide."""
    return NoValidCheckpoint(
        f"{directory}: no checkpoint can be read. To start anew, move what is left of the old ones "
        f"away, {QUARANTINE}/ included.\n" + "\n".join(f"  - {note}" for note in notes)
    )
