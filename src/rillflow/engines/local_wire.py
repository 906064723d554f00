"""Messages between the driver and a worker process, in packets of one or more.

A message is a small tuple that is always read and a payload that is read only by whoever needs it:
carried along as bytes if small, else as a block of shared memory whose descriptor travels with the
packet. The layout of a payload is sent once and numbered on both sides; afterwards its number is
enough. Bytes of a payload are never looked into on the way.

A packet is one marshalled (or, if something in it needs that, pickled) list of

    (meta,)                      a message without a payload
    (meta, layout, parts)        a small one: bytes of each part
    (meta, layout, None, lengths)   a large one: the next descriptor of the packet
"""

from __future__ import annotations

import array
import marshal
import os
import pickle
import socket
from collections.abc import Iterator
from typing import Any

from rillflow.engines.local_memory import ShmRef, ran_out, share, write_block
from rillflow.engines.packing import Layout, PackedRef
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
_MOST_LAYOUTS = 256
"""layouts that two sides number; more than these, as of items of every length, are sent in full"""
_PLAIN, _PICKLED, _IN_BLOCK = b"\0", b"\1", b"\2"
_TRUNCATED = int(socket.MSG_CTRUNC)
"""an int: an enum takes longer to look at than the packet"""


def make_ref(packed: PackedRef) -> PackedRef | ShmRef:
    """A reference that can be sent any number of times, serialised once."""
    parts, size = packed.parts, 0
    for part in parts:
        size += len(part) if type(part) is bytes else part.nbytes
    if size > INLINE:
        return share(packed)
    for index, part in enumerate(parts):
        if type(part) is not bytes:
            parts[index] = part.tobytes()
    return packed


class Packet:
    """A packet that waits for room; its descriptors stay alive until it is sent."""

    __slots__ = ("data", "keep")

    def __init__(self, data: bytes, keep: list[ShmRef]) -> None:
        self.data = data
        self.keep = keep

    def send(self, sock: socket.socket) -> None:
        """Send the whole packet; raises BlockingIOError if the socket would block."""
        if self.keep:
            fds = array.array("i", [ref.fd for ref in self.keep])
            sock.sendmsg([self.data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        else:
            sock.send(self.data)


class Sender:
    """Makes the packets of one direction of one connection."""

    def __init__(self) -> None:
        self._numbers: dict[Layout, int] = {}

    def packet(self, messages: list[Message]) -> Packet:
        """These messages as one packet."""
        return Packet(*self.encode(messages))

    def encode(self, messages: list[Message]) -> tuple[bytes, list[ShmRef]]:
        """These messages as the bytes of one packet, and what travels beside them."""
        numbers = self._numbers
        agreed = len(numbers)
        keep: list[ShmRef] = []
        table: list[tuple[Any, ...]] = []
        for meta, payload in messages:
            if payload is None:
                table.append((meta,))
                continue
            layout: Any = payload.layout  # type: ignore[attr-defined]
            number = numbers.get(layout)
            if number is not None:
                layout = number
            elif len(numbers) < _MOST_LAYOUTS:
                numbers[layout] = len(numbers)
            if type(payload) is PackedRef:
                table.append((meta, layout, payload.parts))
            else:
                assert type(payload) is ShmRef
                table.append((meta, layout, None, payload.lengths))
                keep.append(payload)
        try:
            # both ends are the same Python, and most messages are numbers, names and bytes
            data = _PLAIN + marshal.dumps(table)
        except ValueError:
            try:
                data = _PICKLED + pickle.dumps(table, 5)
            except BaseException:  # nothing leaves: the other side has learned no layout either
                for layout in list(numbers)[agreed:]:
                    del numbers[layout]
                raise
        if len(data) >= _LARGEST:
            fd, lengths = write_block([data])
            keep.append(ShmRef(fd, (), lengths))
            data = _IN_BLOCK
        return data, keep

    def packets(self, messages: list[Message]) -> Iterator[Packet]:
        """As few packets as fit, in order."""
        if len(messages) <= AT_ONCE:
            yield self.packet(messages)
            return
        batch: list[Message] = []
        size = 0
        for message in messages:
            payload = message[1]
            cost = payload.nbytes if type(payload) is PackedRef else 0
            if batch and (size + cost > 2 * INLINE or len(batch) >= _MOST_FDS - 1):
                yield self.packet(batch)
                batch, size = [], 0
            batch.append(message)
            size += cost
        if batch:
            yield self.packet(batch)


def make_room(sock: socket.socket) -> None:
    """Let several packets wait on their way out; the system gives as much as it allows."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)


class Receiver:
    """Reads packets from one socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._receive = sock.recvmsg_into
        self._buffer = bytearray(_LARGEST + 1024)
        self._into = [self._buffer]
        self._view = memoryview(self._buffer)
        self._room = socket.CMSG_SPACE(_MOST_FDS * array.array("i").itemsize)
        self._layouts: list[Layout] = []

    def receive(self) -> list[Message] | None:
        """The next messages, None at the end; raises BlockingIOError if there are none yet."""
        count, ancillary, flags, _ = self._receive(self._into, self._room)
        if count == 0:
            return None
        fds: list[int] = []
        if ancillary or flags & _TRUNCATED:
            fds = _descriptors(ancillary, flags)
        kind = self._buffer[0]
        if kind == _PLAIN[0]:
            table = marshal.loads(self._view[1:count])
        elif kind == _IN_BLOCK[0]:
            block = _read_block(fds.pop())
            table = _table(block[0], memoryview(block)[1:])
        else:
            table = pickle.loads(self._view[1:count])
        layouts = self._layouts
        messages: list[Message] = []
        for entry in table:
            if len(entry) == 1:
                messages.append((entry[0], None))
                continue
            layout = entry[1]
            if type(layout) is int:
                layout = layouts[layout]
            elif len(layouts) < _MOST_LAYOUTS:
                layouts.append(layout)
            if len(entry) == 3:
                messages.append((entry[0], PackedRef(layout, entry[2])))
            else:
                messages.append((entry[0], ShmRef(fds.pop(0), layout, entry[3])))
        return messages


def _table(kind: int, data: memoryview) -> list[tuple[Any, ...]]:
    table: list[tuple[Any, ...]]
    table = marshal.loads(data) if kind == _PLAIN[0] else pickle.loads(data)
    return table


def _descriptors(ancillary: list[Any], flags: int) -> list[int]:
    """Descriptors that came with a packet; if some did not fit, all are given back."""
    numbers = array.array("i")
    for _, kind, data in ancillary:
        if kind == socket.SCM_RIGHTS:
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    if flags & _TRUNCATED:
        for fd in numbers:
            os.close(fd)
        raise ran_out(OSError(24, "too many open files"), "take an item in")
    return list(numbers)


def _read_block(fd: int) -> bytes:
    try:
        return os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)
