"""Shared memory without a name: it is freed by the kernel when the last process lets go of it.

Descriptors and mappings belong to objects that C code frees. A Python finalizer would do as well,
but an interrupt (Ctrl-C) that arrives while a finalizer runs is printed and forgotten.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import select
from collections.abc import Sequence
from typing import Any

from rillflow.engines.packing import Layout, PackedRef, unpack
from rillflow.errors import EngineError
from rillflow.types import Ref

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_MAP_FIXED = 0x10
_FAILED = ctypes.c_void_p(-1).value
ALIGN = 64


def padded(length: int) -> int:
    """The next multiple of the alignment."""
    return (length + ALIGN - 1) // ALIGN * ALIGN


def write_block(parts: Sequence[Any]) -> tuple[int, tuple[int, ...]]:
    """Copy parts into a new block; its descriptor, and the length of each part."""
    try:
        fd = os.memfd_create("rillflow", os.MFD_CLOEXEC)
    except OSError as error:
        raise ran_out(error, "share memory between processes") from error
    try:
        lengths: list[int] = []
        pending: list[memoryview] = []
        for part in parts:
            view = memoryview(part).cast("B") if len(part) else memoryview(b"")
            lengths.append(len(view))
            if len(view):
                pending.append(view)
            gap = padded(len(view)) - len(view)
            if gap:
                pending.append(memoryview(bytes(gap)))
        _write_all(fd, pending)
    except OSError as error:
        os.close(fd)
        raise ran_out(error, "share memory between processes") from error
    except BaseException:
        os.close(fd)
        raise
    return fd, tuple(lengths)


def _write_all(fd: int, pending: list[memoryview]) -> None:
    while pending:
        written = os.writev(fd, pending[:512])
        while pending and written >= len(pending[0]):
            written -= len(pending.pop(0))
        if written:
            pending[0] = pending[0][written:]


class ShmRef(Ref):
    """A value in a block of shared memory: mapped when read, passed on as a descriptor."""

    __slots__ = ("_owner", "fd", "layout", "lengths")

    def __init__(self, fd: int, layout: Layout, lengths: tuple[int, ...]) -> None:
        self.fd = fd
        # The one type of the standard library that takes any descriptor over and closes it when the
        # object is freed, in C and without a word.
        self._owner = select.epoll.fromfd(fd)
        self.layout = layout
        self.lengths = lengths
        """bytes of each part"""

    @property
    def nbytes(self) -> int:
        """Bytes of all parts together."""
        return sum(self.lengths)

    def get(self) -> Any:
        view = _map(self.fd, sum(map(padded, self.lengths)))
        parts, offset = [], 0
        for length in self.lengths:
            parts.append(view[offset : offset + length])
            offset += padded(length)
        return unpack(self.layout, parts)


def share(packed: PackedRef) -> ShmRef:
    """A packed value in a block of its own."""
    fd, lengths = write_block([_flat(part) for part in packed.parts])
    return ShmRef(fd, packed.layout, lengths)


def _flat(part: Any) -> Any:
    """Bytes as they are; of an array its memory."""
    return part.reshape(-1) if hasattr(part, "reshape") else part


def _map(fd: int, size: int) -> memoryview:
    """A read-only view of a block; unmapped when the last array in the block is gone.

    Python's `mmap` keeps a descriptor for each mapping, and a user who keeps a thousand batches
    would run out of descriptors. So `mmap` maps nothing in particular, the block takes the place of
    that mapping, and Python unmaps the place when the time has come.
    """
    try:
        anywhere = mmap.mmap(-1, size)
    except OSError as error:
        raise ran_out(error, f"map {size} bytes of shared memory") from error
    place = ctypes.addressof(ctypes.c_char.from_buffer(anywhere))
    flags = mmap.MAP_SHARED | _MAP_FIXED
    if _libc.mmap(place, size, mmap.PROT_READ, flags, fd, 0) == _FAILED:
        number = ctypes.get_errno()
        raise ran_out(OSError(number, os.strerror(number)), f"map {size} bytes of shared memory")
    return memoryview(anywhere).toreadonly()


def ran_out(error: OSError, what: str) -> EngineError:
    """An error of the system that names the limit behind it, and the way out."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    tasks, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    reasons = {
        errno.EMFILE: f"this process may have {files} descriptors open (RLIMIT_NOFILE) and has "
        "them all: raise the limit with `ulimit -n`, or keep fewer items",
        errno.ENFILE: "the system has all descriptors open that it allows (fs.file-max)",
        errno.EAGAIN: f"this user may have {tasks} processes and threads (RLIMIT_NPROC), or the "
        "container's limit (pids.max) is reached: raise it with `ulimit -u`, or use fewer actors",
        errno.ENOMEM: "there is no memory left: use fewer actors, or smaller items",
        errno.ENOSPC: "there is no shared memory left: use fewer or smaller items",
    }
    reason = reasons.get(error.errno or 0, error.strerror or str(error))
    return EngineError(f"cannot {what}: {reason}.")
