"""Messages between the driver and a worker process, in packets of one or more.

A message is a small tuple that is always read and a payload that is read only by whoever needs it:
carried along as bytes if small, else as a block of shared memory whose descriptor travels with the
packet. Bytes inside a packet are never looked into on the way.
"""

from __future__ import annotations

import array
import marshal
import os
import pickle
import socket
from collections.abc import Iterator
from typing import Any

from rillflow.engines.local_memory import ShmRef, write_block
from rillflow.engines.serial import Packed, PackedRef
from rillflow.types import Ref

Message = tuple[tuple[Any, ...], Ref | None]

INLINE = 64 * 1024
"""payloads up to this size travel in the packet itself; weights of small networks do"""
_LARGEST = 160 * 1024
"""a packet must fit in the default socket buffer of Linux"""
AT_ONCE = (_LARGEST - 1) // INLINE
"""so many messages fit into one packet, whatever they carry"""
_ROOM = 1 << 20
"""bytes of the send buffer that are asked for: an actor does not wait for a busy driver"""
_MOST_FDS = 64
_PLAIN, _PICKLED, _IN_BLOCK = b"\0", b"\1", b"\2"


def make_ref(packed: Packed) -> PackedRef | ShmRef:
    """A reference that can be sent any number of times, serialised once."""
    if packed.nbytes <= INLINE:
        if packed.buffers:
            packed = Packed(packed.body, [bytes(buffer) for buffer in packed.buffers])
        return PackedRef(packed)
    return ShmRef(write_block(packed), (len(packed.body), *map(len, packed.buffers)))


class Packet:
    """Messages ready to be sent; keeps their descriptors alive until then."""

    __slots__ = ("_keep", "data", "fds")

    def __init__(self, messages: list[Message]) -> None:
        self._keep: list[Ref] = []
        table: list[tuple[Any, ...]] = []
        for meta, payload in messages:
            if payload is None:
                table.append((meta,))
            elif isinstance(payload, PackedRef):
                table.append((meta, payload.packed.body, payload.packed.buffers))
            else:
                assert isinstance(payload, ShmRef)
                table.append((meta, payload.lengths))
                self._keep.append(payload)
        try:
            # both ends are the same Python, and most messages are numbers, names and bytes
            data = _PLAIN + marshal.dumps(table)
        except ValueError:
            data = _PICKLED + pickle.dumps(table, 5)
        if len(data) >= _LARGEST:
            block = ShmRef(write_block(Packed(data, ())), (len(data),))
            self._keep.append(block)
            data = _IN_BLOCK
        self.data = data
        self.fds = [ref.fd for ref in self._keep]  # type: ignore[attr-defined]

    def send(self, sock: socket.socket) -> None:
        """Send it whole; raises BlockingIOError if the socket would block."""
        if self.fds:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self.fds))
            sock.sendmsg([self.data], [rights])
        else:
            sock.send(self.data)


def make_room(sock: socket.socket) -> None:
    """Let several packets wait on their way out; the system gives as much as it allows."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)


def packets(messages: list[Message]) -> Iterator[Packet]:
    """As few packets as fit, in order."""
    if len(messages) <= AT_ONCE:
        yield Packet(messages)
        return
    batch: list[Message] = []
    size = 0
    for message in messages:
        payload = message[1]
        cost = payload.packed.nbytes if isinstance(payload, PackedRef) else 0
        if batch and (size + cost > 2 * INLINE or len(batch) >= _MOST_FDS - 1):
            yield Packet(batch)
            batch, size = [], 0
        batch.append(message)
        size += cost
    if batch:
        yield Packet(batch)


class Receiver:
    """Reads packets from one socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray(_LARGEST + 1024)
        self._view = memoryview(self._buffer)
        self._room = socket.CMSG_SPACE(_MOST_FDS * array.array("i").itemsize)

    def receive(self) -> list[Message] | None:
        """The next messages, None at the end; raises BlockingIOError if there are none yet."""
        count, ancillary, _, _ = self.sock.recvmsg_into([self._buffer], self._room)
        if count == 0:
            return None
        fds: list[int] = []
        for _, kind, data in ancillary:
            if kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
                fds.extend(numbers)
        if self._buffer[0] == _IN_BLOCK[0]:
            block = _read_block(fds.pop())
            return _messages(_table(block[0], memoryview(block)[1:]), fds)
        return _messages(_table(self._buffer[0], self._view[1:count]), fds)


def _table(kind: int, data: memoryview) -> list[tuple[Any, ...]]:
    table: list[tuple[Any, ...]]
    table = marshal.loads(data) if kind == _PLAIN[0] else pickle.loads(data)
    return table


def _messages(table: list[tuple[Any, ...]], fds: list[int]) -> list[Message]:
    blocks = iter(fds)
    messages: list[Message] = []
    for meta, *payload in table:
        if not payload:
            messages.append((meta, None))
        elif len(payload) == 1:
            messages.append((meta, ShmRef(next(blocks), payload[0])))
        else:
            messages.append((meta, PackedRef(Packed(payload[0], payload[1]))))
    return messages


def _read_block(fd: int) -> bytes:
    try:
        return os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)
