"""Messages between the driver and a worker process: one packet each, large values beside it.

A packet is a fixed head, a small pickled part that is always read (`meta`), and a payload that is
read only by whoever needs it: inline if small, else a shared-memory block passed as a descriptor.
"""

from __future__ import annotations

import array
import os
import pickle
import socket
import struct
from typing import Any

from rillflow.engines.serial import Buffer, Packed, PackedRef
from rillflow.engines.shm import ShmRef, write_block
from rillflow.types import Ref

INLINE = 32 * 1024
"""payloads up to this size travel in the packet itself"""
_LARGEST = 160 * 1024
_HEAD = struct.Struct("<IIB")  # bytes of meta, number of payload parts, where things are
_INLINE, _BLOCK, _META_BLOCK = 1, 2, 4


def make_ref(packed: Packed) -> PackedRef | ShmRef:
    """A reference that can be sent any number of times, serialised once."""
    if packed.nbytes <= INLINE:
        return PackedRef(Packed(packed.body, [bytes(buffer) for buffer in packed.buffers]))
    return ShmRef(write_block(packed), (len(packed.body), *map(len, packed.buffers)))


class Packet:
    """A message ready to be sent; keeps its descriptors alive until then."""

    __slots__ = ("_keep", "fds", "parts")

    def __init__(self, meta: Any, payload: Ref | None = None) -> None:
        small = pickle.dumps(meta, 5)
        where, lengths, body = 0, (), []
        self.fds: list[int] = []
        self._keep: list[Ref] = []
        if isinstance(payload, PackedRef):
            where = _INLINE
            lengths = (len(payload.packed.body), *map(len, payload.packed.buffers))
            body = [payload.packed.body, *payload.packed.buffers]
        elif isinstance(payload, ShmRef):
            where = _BLOCK
            lengths = payload.lengths
            self.fds.append(payload.fd)
            self._keep.append(payload)
        if len(small) > INLINE:
            where |= _META_BLOCK
            block = ShmRef(write_block(Packed(small, ())), (len(small),))
            self.fds.append(block.fd)
            self._keep.append(block)
            small = b""
        head = _HEAD.pack(len(small), len(lengths), where)
        table = struct.pack(f"<{len(lengths)}Q", *lengths)
        self.parts: list[Buffer] = [head, table, small, *body]

    def send(self, sock: socket.socket) -> None:
        """Send it whole; raises BlockingIOError if the socket would block."""
        if self.fds:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self.fds))
            sock.sendmsg(self.parts, [rights])
        else:
            sock.sendmsg(self.parts)


class Receiver:
    """Reads packets from one socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray(_LARGEST)
        self._room = socket.CMSG_SPACE(2 * array.array("i").itemsize)

    def receive(self) -> tuple[Any, Ref | None] | None:
        """The next message; None at the end of the connection. Raises BlockingIOError if there is none."""
        count, ancillary, _, _ = self.sock.recvmsg_into([self._buffer], self._room)
        if count == 0:
            return None
        fds = array.array("i")
        for _, kind, data in ancillary:
            if kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        return self._parse(bytes(memoryview(self._buffer)[:count]), list(fds))

    def _parse(self, data: bytes, fds: list[int]) -> tuple[Any, Ref | None]:
        meta_length, parts, where = _HEAD.unpack_from(data)
        lengths = struct.unpack_from(f"<{parts}Q", data, _HEAD.size)
        start = _HEAD.size + 8 * parts
        payload: Ref | None = None
        if where & _BLOCK:
            payload = ShmRef(fds.pop(0), lengths)
        elif where & _INLINE:
            view, offset, pieces = memoryview(data), start + meta_length, []
            for length in lengths:
                pieces.append(view[offset : offset + length])
                offset += length
            payload = PackedRef(Packed(pieces[0], pieces[1:]))
        if where & _META_BLOCK:
            return pickle.loads(_read_block(fds.pop(0))), payload
        return pickle.loads(data[start : start + meta_length]), payload


def _read_block(fd: int) -> bytes:
    try:
        return os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)
