"""What can go wrong with a checkpoint, by who can do something about it.

CheckpointError
├── UnsavableState       a value in the state is not plain data: the operator's author
├── CheckpointNotSaved   the disk is full or failing: catch it, go on, try again later
├── CheckpointDamaged    a file is not what was written: fall back to an older checkpoint
├── UnknownFormat        written by a newer rillflow: use that one
├── UnknownClass         a class of yours that is not registered here: import its module first
├── NoValidCheckpoint    there are checkpoints, and none can be read: a person has to look
├── ForeignCheckpoint    there are checkpoints, and all are of another run: a person has to decide
└── StoreLocked          another process writes into this directory
"""

from __future__ import annotations

from pathlib import Path

from rillflow.errors import RillflowError


class CheckpointError(RillflowError):
    """Base class of everything that goes wrong with checkpoints."""


class UnsavableState(CheckpointError, TypeError):  # noqa: N818 - what it is
    """A value in the state is not plain data; nothing has been written."""

    def __init__(self, where: str, found: str, way_out: str) -> None:
        self.where = where
        super().__init__(
            f"a checkpoint holds plain data only; {where or 'the state itself'}: found {found}; "
            f"{way_out}."
        )


class CheckpointNotSaved(CheckpointError):  # noqa: N818 - what it is
    """The disk did not take the checkpoint; older ones are as they were. A run can go on."""

    def __init__(self, directory: Path, error: OSError, needed: int) -> None:
        self.error = error
        reason = error.strerror or str(error)
        super().__init__(
            f"{directory}: no checkpoint was saved ({reason}; it takes {needed:,} bytes). "
            "Older checkpoints are untouched and nothing was left behind; make room and save again."
        )


class CheckpointDamaged(CheckpointError):  # noqa: N818 - what it is
    """A file of a checkpoint is not what was written."""

    def __init__(self, file: Path | str, expected: str, found: str) -> None:
        self.file, self.expected, self.found = Path(file), expected, found
        super().__init__(f"{file}: expected {expected}, found {found}.")


class UnknownFormat(CheckpointError):  # noqa: N818 - what it is
    """A checkpoint in a format that this version cannot read."""


class UnknownClass(CheckpointError):  # noqa: N818 - what it is
    """A checkpoint with values of a class that is not registered in this process."""


class NoValidCheckpoint(CheckpointError):  # noqa: N818 - what it is
    """There are checkpoints, but none can be read."""


class ForeignCheckpoint(CheckpointError):  # noqa: N818 - what it is
    """There are checkpoints, but those of another run."""


class StoreLocked(CheckpointError):  # noqa: N818 - what it is
    """Another process writes into this directory; `pid` is its number, if it is known."""

    def __init__(self, message: str, pid: int | None) -> None:
        self.pid = pid
        super().__init__(message)


class CheckpointWarning(UserWarning):
    """Something about checkpoints that a person should know, and that stops nothing."""
