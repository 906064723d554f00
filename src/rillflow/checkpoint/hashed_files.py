"""Files written so that they are on the disk, and read so that they are what was written."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from rillflow.checkpoint.errors import CheckpointDamaged, CheckpointError

_SMALL = 1 << 20
_PIECE = 8 << 20


@dataclass(frozen=True)
class FileRecord:
    """What a manifest says of a file."""

    bytes: int
    sha256: str


# -- writing ---------------------------------------------------------------------------------------


def write_file(path: Path, pieces: Iterable[bytes | memoryview]) -> FileRecord:
    """Write a new file through to the disk."""
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        for piece in _evened(pieces):
            digest.update(piece)
            size += len(piece)
            while len(piece):
                piece = piece[os.write(descriptor, piece) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return FileRecord(size, digest.hexdigest())


def _evened(pieces: Iterable[bytes | memoryview]) -> Iterator[memoryview]:
    """Small pieces together, large ones in parts: few system calls, few copies."""
    waiting = bytearray()
    for piece in pieces:
        if len(piece) < _SMALL:
            waiting += piece
        if waiting and (len(piece) >= _SMALL or len(waiting) >= _SMALL):
            yield memoryview(bytes(waiting))
            waiting.clear()
        if len(piece) >= _SMALL:
            view = memoryview(piece)
            for begin in range(0, len(view), _PIECE):
                yield view[begin : begin + _PIECE]
    if waiting:
        yield memoryview(bytes(waiting))


def replace_file(path: Path, data: bytes, temporary: Path) -> None:
    """Give a small file new contents: it has the old or the new ones, never anything between."""
    try:
        write_file(temporary, [data])
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Bring the names in a directory to the disk; without it a rename can be forgotten."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems have no such thing
            raise
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a directory as far as possible; what stays is removed when a store is next opened."""
    shutil.rmtree(path, ignore_errors=True)


# -- reading ---------------------------------------------------------------------------------------


class SourceFile:
    """A file that is read from beginning to end, once, and compared with its record."""

    def __init__(self, path: Path, record: FileRecord | None = None) -> None:
        self.path = path
        self._record = record
        self._digest = hashlib.sha256()
        self._descriptor = _open_regular(path)
        self.size = os.fstat(self._descriptor).st_size
        if record is not None and self.size != record.bytes:
            os.close(self._descriptor)
            raise CheckpointDamaged(path, f"{record.bytes:,} bytes", f"{self.size:,}")

    def __enter__(self) -> SourceFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, size: int) -> bytes:
        """The next bytes, exactly so many."""
        buffer = np.empty(size, np.uint8)
        self.read_into(buffer)
        return buffer.tobytes()

    def read_into(self, buffer: NDArray[np.uint8]) -> None:
        """Fill the buffer with the next bytes."""
        view = buffer.data
        while len(view):
            try:
                count = os.readv(self._descriptor, [view[:_PIECE]])
            except OSError as error:
                raise _unreadable(self.path, error) from error
            if not count:
                raise CheckpointDamaged(self.path, f"{len(view):,} more bytes", "its end")
            self._digest.update(view[:count])
            view = view[count:]

    def finish(self) -> None:
        """Compare what was read with the record; to be called before any of it is used."""
        found = self._digest.hexdigest()
        if self._record is not None and found != self._record.sha256:
            raise CheckpointDamaged(self.path, f"SHA-256 {self._record.sha256}", found)


def read_file(path: Path, record: FileRecord | None, limit: int) -> bytes:
    """A whole small file."""
    with SourceFile(path, record) as file:
        if file.size > limit:
            raise CheckpointDamaged(path, f"at most {limit:,} bytes", f"{file.size:,}")
        data = file.read(file.size)
        file.finish()
        return data


def verify_file(path: Path, record: FileRecord) -> None:
    """Compare a file with its record, without keeping it."""
    with SourceFile(path, record) as file:
        buffer = np.empty(min(file.size, _PIECE), np.uint8)
        for begin in range(0, file.size, _PIECE):
            file.read_into(buffer[: file.size - begin])
        file.finish()


def _open_regular(path: Path) -> int:
    # not blocking: a pipe with this name would make us wait for somebody to write into it
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CheckpointDamaged(path, "a plain file", "something else of that name")
    return descriptor


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    """Damaged, if it is the file's fault; something else if the machine or the user is at fault."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return CheckpointDamaged(path, "a file", "none")
    if error.errno in (errno.ELOOP, errno.ENXIO, errno.EIO):
        return CheckpointDamaged(path, "a plain file that can be read", os.strerror(error.errno))
    return CheckpointError(f"{path} cannot be read: {error.strerror or error}.")
