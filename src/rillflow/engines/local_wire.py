"""Messages between the driver and a worker process, in packets of one or more.

A message is a small tuple that is always read and a payload that is read only by whoever needs it:
carried along as bytes if small, else as a block of shared memory whose descriptor travels with the
packet. The layout of a payload is sent once and numbered on both sides; afterwards its number is
enough. Bytes of a payload are never looked into on the way.

A packet is one marshalled (or, if something in it needs that, pickled) list of entries

    (meta, None)                 a message without a payload
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
from rillflow.engines.packing import QUICK, SMALL, Layout, PackedRef, pack
from rillflow.types import Ref

Message = tuple[tuple[Any, ...], Ref | None]
Entry = tuple[Any, ...]

INLINE = SMALL
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
_LIST = ord("[")
"""the first byte of a marshalled list; a pickle begins with another"""
_IN_BLOCK = b"\0"
"""the packet is in the last block that travels with it"""
_TRUNCATED = int(socket.MSG_CTRUNC)
"""an int: an enum takes longer to look at than the packet"""


def packed(value: Any, *, by_value: bool = True) -> PackedRef | ShmRef:
    """A reference to a value that can be sent any number of times, serialised once."""
    ref = pack(value, by_value=by_value)
    parts, size = ref.parts, 0
    if len(parts) == 1 and type(parts[0]) is bytes and len(parts[0]) <= INLINE:
        return ref  # the usual case: nothing to add up, nothing to copy
    for part in parts:
        size += len(part) if type(part) is bytes else part.nbytes
    return share(ref) if size > INLINE else ref.detached()


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
    """Makes the packets of one direction of one connection: `add` messages, then `take` them."""

    __slots__ = ("_numbers", "keep", "table")

    def __init__(self) -> None:
        self._numbers: dict[Layout, int] = {}
        self.table: list[Entry] = []
        """messages that wait for the next packet"""
        self.keep: list[ShmRef] = []
        """blocks of shared memory that travel beside them, in order"""

    def add(self, meta: tuple[Any, ...], payload: Ref | None) -> None:
        """A further message for the next packet."""
        if payload is None:
            self.table.append((meta, None))
        elif type(payload) is PackedRef:
            number = self._numbers.get(payload.layout)
            layout: int | Layout = self._teach(payload.layout) if number is None else number
            self.table.append((meta, layout, payload.parts))
        elif type(payload) is ShmRef:
            number = self._numbers.get(payload.layout)
            layout = self._teach(payload.layout) if number is None else number
            self.table.append((meta, layout, None, payload.lengths))
            self.keep.append(payload)
        else:
            self.add(meta, packed(payload.get()))

    def _teach(self, layout: Layout) -> Layout:
        """A layout that has no number is sent in full, and has one afterwards."""
        if len(self._numbers) < _MOST_LAYOUTS:
            self._numbers[layout] = len(self._numbers)
        return layout

    def clear(self) -> None:
        """No message waits any more."""
        self._forget(self.table)
        self.table, self.keep = [], []

    def take(self) -> tuple[bytes, list[ShmRef]]:
        """The messages that wait, as the bytes of one packet, and what travels beside them.

        Where that fails none of them waits any more.
        """
        table, keep = self.table, self.keep
        self.table, self.keep = [], []
        try:
            # both ends are the same Python, and most messages are numbers, names and bytes
            data = marshal.dumps(table, QUICK)
        except ValueError:
            data = self._pickled(table)
        if len(data) >= _LARGEST:
            data = self._block(data, keep)
        return data, keep

    def packets(self) -> Iterator[Packet]:
        """The messages that wait, in as few packets as fit, in order."""
        table, keep = self.table, self.keep
        self.table, self.keep = [], []
        batch: list[Entry] = []
        size = blocks = 0
        for entry in table:
            cost = sum(map(len, entry[2])) if len(entry) == 3 else 0
            if batch and (size + cost > 2 * INLINE or len(batch) >= _MOST_FDS - 1):
                self.table, self.keep, keep = batch, keep[:blocks], keep[blocks:]
                yield Packet(*self.take())
                batch, size, blocks = [], 0, 0
            batch.append(entry)
            size += cost
            blocks += len(entry) == 4
        self.table, self.keep = batch, keep
        if batch:
            yield Packet(*self.take())

    def _pickled(self, table: list[Entry]) -> bytes:
        try:
            return pickle.dumps(table, 5)
        except BaseException:
            self._forget(table)
            raise

    def _block(self, data: bytes, keep: list[ShmRef]) -> bytes:
        """A very large packet travels in a block of its own."""
        fd, lengths = write_block([data])
        keep.append(ShmRef(fd, (), lengths))
        return _IN_BLOCK

    def _forget(self, table: list[Entry]) -> None:
        """Messages that do not leave teach the other side no layout, nor do those after them."""
        numbers = self._numbers
        new = [entry[1] for entry in table if entry[1] in numbers]
        for layout in list(numbers)[numbers[new[0]] :] if new else ():
            del numbers[layout]


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
        fds: list[int] | None = None
        if ancillary or flags & _TRUNCATED:
            fds = _descriptors(ancillary, flags)
        if self._buffer[0] == _LIST:
            table = marshal.loads(self._view[:count])
        elif self._buffer[0] == _IN_BLOCK[0]:
            assert fds is not None
            table = _table(_read_block(fds.pop()))
        else:
            table = _table(self._view[:count])
        layouts = self._layouts
        messages: list[Message] = []
        for entry in table:
            if len(entry) == 2:  # nothing was packed: the entry is the message
                messages.append(entry)
                continue
            meta, layout, parts = entry[:3]
            if type(layout) is int:
                layout = layouts[layout]
            elif len(layouts) < _MOST_LAYOUTS:
                layouts.append(layout)
            if parts is not None:
                messages.append((meta, PackedRef(layout, parts)))
            else:
                assert fds is not None
                messages.append((meta, ShmRef(fds.pop(0), layout, entry[3])))
        return messages


def _table(data: bytes | memoryview) -> list[Entry]:
    table: list[Entry] = marshal.loads(data) if data[0] == _LIST else pickle.loads(data)
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
