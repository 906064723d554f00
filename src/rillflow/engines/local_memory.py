"""Shared memory without a name: it is freed by the kernel when the last process lets go of it."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from typing import Any

from rillflow.engines.serial import Buffer, Packed, unpack
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
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_PROT_READ, _MAP_SHARED = 1, 1
_FAILED = ctypes.c_void_p(-1).value
ALIGN = 64


def padded(length: int) -> int:
    """The next multiple of the alignment."""
    return (length + ALIGN - 1) // ALIGN * ALIGN


def write_block(packed: Packed) -> int:
    """Copy a value into a new block; returns its file descriptor."""
    fd = os.memfd_create("rillflow", os.MFD_CLOEXEC)
    try:
        parts: list[Buffer] = []
        for part in (packed.body, *packed.buffers):
            parts.append(part)
            gap = padded(len(part)) - len(part)
            if gap:
                parts.append(bytes(gap))
        _write_all(fd, parts)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _write_all(fd: int, parts: Sequence[Buffer]) -> None:
    pending = [memoryview(part).cast("B") for part in parts if len(part)]
    while pending:
        written = os.writev(fd, pending[:512])
        while pending and written >= len(pending[0]):
            written -= len(pending.pop(0))
        if written:
            pending[0] = pending[0][written:]


class ShmRef(Ref):
    """A value in a block of shared memory: mapped when read, passed on as a descriptor."""

    __slots__ = ("__weakref__", "_finalizer", "fd", "lengths")

    def __init__(self, fd: int, lengths: tuple[int, ...]) -> None:
        self.fd = fd
        self.lengths = lengths
        """bytes of the pickle, then of each buffer"""
        self._finalizer = weakref.finalize(self, os.close, fd)

    def get(self) -> Any:
        size = sum(map(padded, self.lengths))
        view = _map(self.fd, size)
        parts, offset = [], 0
        for length in self.lengths:
            parts.append(view[offset : offset + length])
            offset += padded(length)
        return unpack(Packed(parts[0], parts[1:]))


def _map(fd: int, size: int) -> memoryview:
    """A read-only view of a block; unmapped when the last array in it is gone.

    The standard `mmap` keeps a descriptor open per mapping, and a user who keeps a thousand
    batches would run out of them.
    """
    address = _libc.mmap(None, size, _PROT_READ, _MAP_SHARED, fd, 0)
    if address == _FAILED:
        raise OSError(ctypes.get_errno(), f"cannot map {size} bytes of shared memory")
    block = (ctypes.c_char * size).from_address(address)
    weakref.finalize(block, _libc.munmap, address, size)
    return memoryview(block).cast("B").toreadonly()
