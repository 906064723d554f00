"""Writing one checkpoint, all or nothing, whatever happens meanwhile.

Everything goes into a directory of another name: each file is written through to the disk, the
manifest last, then the directory itself, and all of it is read back. Only then does one rename
give it its name. A process that is killed anywhere leaves the older checkpoints and, at most, a
directory that nobody takes for a checkpoint and that the next store removes.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rillflow.checkpoint import limits
from rillflow.checkpoint.encode import Encoded
from rillflow.checkpoint.errors import CheckpointDamaged, CheckpointNotSaved, UnsavableState
from rillflow.checkpoint.hashed_files import remove_tree, sync_directory, verify_file, write_file
from rillflow.checkpoint.manifest import (
    MANIFEST,
    STATE,
    Manifest,
    array_file,
    manifest_bytes,
    read_manifest,
)
from rillflow.checkpoint.migrate import FORMAT
from rillflow.checkpoint.safetensors_format import chunks, tensor_file

TEMPORARY = ".tmp-"


def temporary(directory: Path) -> Path:
    """A new name that nobody takes for a checkpoint."""
    return directory / f"{TEMPORARY}{secrets.token_hex(8)}"


def commit(
    directory: Path, step: int, sequence: int, encoded: Encoded, facts: Mapping[str, Any]
) -> Path:
    """Write a checkpoint and give it its name; or raise, and leave nothing."""
    where = temporary(directory)
    try:
        os.mkdir(where)
        name = _write(where, step, sequence, encoded, facts)
        os.rename(where, directory / name)
        where = directory / name
        sync_directory(directory)
    except BaseException as error:
        discard(where)
        if isinstance(error, OSError):
            raise CheckpointNotSaved(directory, error, encoded.bytes) from error
        if isinstance(error, CheckpointDamaged):
            lie = OSError(errno.EIO, f"the disk gave back other bytes than were written: {error}")
            raise CheckpointNotSaved(directory, lie, encoded.bytes) from error
        raise
    return where


def discard(path: Path) -> None:
    """Remove a checkpoint: its name first, so that no half of one is ever taken for one."""
    if not path.name.startswith(TEMPORARY):
        nameless = temporary(path.parent)
        try:
            os.rename(path, nameless)
            # were this forgotten and the removal of files remembered, half a checkpoint would stay
            sync_directory(path.parent)
        except OSError:
            return
        path = nameless
    with suppress(OSError):
        remove_tree(path)


def _write(
    where: Path, step: int, sequence: int, encoded: Encoded, facts: Mapping[str, Any]
) -> str:
    """All files, through to the disk and read back; the name that the directory is to have."""
    files = {STATE: write_file(where / STATE, [encoded.json])}
    for number, chunk in enumerate(chunks(encoded.arrays)):
        file = array_file(number)
        files[file] = write_file(where / file, tensor_file(chunk))
    manifest = Manifest(FORMAT, step, sequence, dict(facts), files)
    data, name = manifest_bytes(manifest)
    if len(data) > limits.MANIFEST_BYTES:
        raise UnsavableState("facts", f"{len(data):,} bytes", "put what is large into the state")
    write_file(where / MANIFEST, [data])
    sync_directory(where)
    if read_manifest(where) != manifest:
        raise CheckpointDamaged(where / MANIFEST, "what was written", "something else")
    for file, record in files.items():
        verify_file(where / file, record)
    return name
