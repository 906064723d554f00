"""The main program of a worker process: one actor, one socket to the driver.

The program is started as `python -m rillflow.engines.local_worker SOCKET LIFELINE` and imports
nothing heavy by itself: what the actor needs comes with the actor.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import random
import signal
import socket
import sys
from typing import Any, TextIO

from rillflow.engines.host import Host
from rillflow.engines.local_wire import Packet, Receiver, Sender, packed
from rillflow.engines.replies import Reply, spoiled
from rillflow.types import ActorInfo, Ref

_F_SETSIG = 10


def die_with_driver(lifeline: int) -> None:
    """Let the kernel kill this process group when the driver is gone, however it went.

    The driver has the other end of a pipe and never writes. When the driver ends, the kernel sends
    the signal, even if this process is stuck in C code and could not run a line of Python.
    """
    os.set_inheritable(lifeline, False)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    try:
        gone = os.read(lifeline, 1) == b""
    except BlockingIOError:
        gone = False
    if gone:  # the driver ended before the signal was armed
        os._exit(1)


def let_the_driver_go_first() -> None:
    """A worker that is woken by the driver runs when the driver rests, not in its place.

    Otherwise a driver that has asked one worker may get the processor back only when that worker's
    time slice is over, three milliseconds later, while another waits to be asked.
    """
    with contextlib.suppress(OSError):  # where it is not allowed, the run is only slower
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class _Named(io.TextIOBase):
    """A stream that puts the actor's name before each line; otherwise like the one below it."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self.stream = stream
        self.prefix = f"({name}) "
        self.line = ""
        self.buffer = _NamedBytes(self)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream below."""
        return self.stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """What the stream below does with text that its encoding does not know."""
        return self.stream.errors

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.stream.isatty()

    def write(self, text: str) -> int:
        self.line += text
        *lines, self.line = self.line.split("\n")
        if lines:
            self.stream.write("".join(f"{self.prefix}{line}\n" for line in lines))
            self.stream.flush()
        return len(text)

    def fileno(self) -> int:
        return self.stream.fileno()

    def flush(self) -> None:
        self.stream.flush()

    def close(self) -> None:
        if self.line:
            self.write("\n")


class _NamedBytes(io.RawIOBase):
    """`sys.stdout.buffer` of an actor: bytes that are text in the stream's encoding."""

    def __init__(self, text: _Named) -> None:
        self.text = text

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.text.write(bytes(data).decode(self.text.encoding or "utf-8", "replace"))
        return len(data)

    def flush(self) -> None:
        self.text.flush()


def _pack(value: Any) -> Ref:
    return packed(value, by_value=False)


class Worker:
    """Handles the driver's orders one by one."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.receiver = Receiver(sock)
        self.sender = Sender()
        self.host: Host | None = None

    def run(self) -> None:
        """Handle orders until the driver says stop, or is gone."""
        host = self.host
        while (orders := self.receiver.receive()) is not None:
            for order, payload in orders:
                if order[0] == "stop":
                    self._close()
                    return
                if host is None:
                    assert payload is not None
                    host = self.host = self._start(payload, *order[1:])
                else:
                    reply = host.handle(order, payload, _pack)
                    if reply is not None:
                        self.answer(reply)
                if host.report_due == 2:
                    self._acknowledge(host)
            if host is not None and host.report_due:
                self._acknowledge(host)
        self._close()

    def _close(self) -> None:
        if self.host is not None:
            self.host.close()

    def _acknowledge(self, host: Host) -> None:
        reply = host.acknowledge()
        if reply is not None:
            self.answer(reply)

    def _start(
        self, payload: Ref, who: tuple[Any, ...], mailbox: int, paths: list[str], directory: str
    ) -> Host:
        """Become the actor; where that fails, say so and end."""
        sys.path[:] = paths
        with contextlib.suppress(OSError):  # the driver's directory may be gone by now
            os.chdir(directory)
        info = ActorInfo(*who)
        sys.stdout, sys.stderr = _Named(sys.stdout, info.name), _Named(sys.stderr, info.name)
        random.seed(info.seed)
        code, handle = payload.get()
        host = Host(info, handle, mailbox)
        reply = host.start(code)
        self.answer(reply)
        if reply[0][0] == "lost":
            sys.stdout.close()
            os._exit(1)
        self._seed_numpy(info.seed)
        return host

    @staticmethod
    def _seed_numpy(seed: int) -> None:
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed)

    def answer(self, reply: Reply) -> None:
        """Tell the driver; what cannot be sent becomes a failure that can."""
        sender = self.sender
        try:
            sender.add(*reply)
            data, keep = sender.take()
        except BaseException as error:
            sender.add(*spoiled(reply, error))
            data, keep = sender.take()
        if keep:
            Packet(data, keep).send(self.sock)
        else:
            self.sock.send(data)


def main() -> None:
    """Entry point of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    die_with_driver(int(sys.argv[2]))
    let_the_driver_go_first()
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    try:
        Worker(sock).run()
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)  # the driver is gone
    sys.stdout.close()
    os._exit(0)  # skip the interpreter's slow farewell; the actor has been closed


if __name__ == "__main__":
    main()
