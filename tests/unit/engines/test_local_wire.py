"""Packets between a driver and a worker process, on a socket pair within one process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rillflow.engines.local_wire import INLINE, Message, Packet, Receiver, Sender, packed
from rillflow.engines.packing import ValueRef


class Wire:
    """One direction of a connection."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.theirs.setblocking(False)
        self.sender, self.receiver = Sender(), Receiver(self.theirs)

    def add(self, number: int, value: Any) -> None:
        self.sender.add(("item", number), packed(value))

    def send(self) -> None:
        Packet(*self.sender.take()).send(self.ours)

    def receive(self) -> list[Message]:
        messages = self.receiver.receive()
        assert messages is not None
        return messages


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.ours.close()
    wire.theirs.close()


@pytest.mark.parametrize(
    "value",
    [7, "text", None, [1, {"a": 2.5}], np.arange(5.0), np.arange(6).reshape(2, 3).T,
     np.zeros((0, 3)), np.float32(2.0), {"big": np.ones(INLINE, np.uint8), "n": 1}, "x" * INLINE],
    ids=repr,
)  # fmt: skip
def test_what_is_sent_arrives(wire: Wire, value: Any) -> None:
    for _ in range(2):  # the second time by the number of its layout
        wire.add(1, value)
        wire.send()
        [(meta, payload)] = wire.receive()
        assert meta == ("item", 1)
        assert payload is not None
        np.testing.assert_equal(payload.get(), value)


def test_a_layout_is_sent_once(wire: Wire) -> None:
    sizes = []
    for _ in range(2):
        wire.add(1, {"a long name of a column": np.zeros(3)})
        data, _ = wire.sender.take()
        sizes.append(len(data))
    assert sizes[1] < sizes[0] - len("a long name of a column")


def test_messages_without_a_payload_and_values_of_this_process(wire: Wire) -> None:
    wire.sender.add(("stop",), None)
    wire.sender.add(("item", 2), ValueRef([1, 2]))
    wire.send()
    (first, nothing), (second, payload) = wire.receive()
    assert (first, nothing, second) == (("stop",), None, ("item", 2))
    assert payload is not None
    assert payload.get() == [1, 2]


def test_a_message_that_cannot_leave_takes_its_layouts_with_it(wire: Wire) -> None:
    """The other side never saw them, so that later messages must not count on them."""
    wire.add(1, np.zeros(1))
    wire.send()
    wire.sender.add(("item", lambda: 0), packed(np.zeros(2)))
    with pytest.raises(Exception, match="pickle"):
        wire.sender.take()
    for length in (3, 2, 1):
        wire.add(length, np.zeros(length))
        wire.send()
    wire.receive()
    for length in (3, 2, 1):
        [(meta, payload)] = wire.receive()
        assert meta == ("item", length)
        assert payload is not None
        assert len(payload.get()) == length


def test_many_messages_leave_in_packets_that_fit_in_order(wire: Wire) -> None:
    """Small ones and blocks of shared memory, each with its own data, however they are divided."""
    lengths = [INLINE // 2, 2 * INLINE, 10, INLINE, 3 * INLINE, INLINE, INLINE, 5] * 20
    for number, length in enumerate(lengths):
        wire.add(number, np.full(length, number, np.uint8))
    count = 0
    for packet in wire.sender.packets():
        packet.send(wire.ours)
        for meta, payload in wire.receive():
            assert meta == ("item", count)
            assert payload is not None
            value = payload.get()
            assert len(value) == lengths[count]
            assert (value == count).all()
            count += 1
    assert count == len(lengths)


def test_a_packet_too_large_for_a_socket_travels_in_a_block(wire: Wire) -> None:
    wire.sender.add(("install", b"x" * 1_000_000), None)
    wire.send()
    [(meta, payload)] = wire.receive()
    assert (len(meta[1]), payload) == (1_000_000, None)


def test_what_was_not_sent_is_forgotten(wire: Wire) -> None:
    wire.add(1, np.zeros(3))
    wire.sender.clear()
    for _ in range(2):
        wire.add(2, np.zeros(4))
        wire.send()
        [(meta, payload)] = wire.receive()
        assert meta == ("item", 2)
        assert payload is not None
        assert len(payload.get()) == 4
