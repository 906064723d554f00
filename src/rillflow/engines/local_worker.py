"""The main program of a worker process: one actor, one socket to the driver.

Started as `python -m rillflow.engines.local_worker SOCKET LIFELINE`. It imports nothing heavy by itself:
what the actor needs comes with the actor.
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

from rillflow.engines.host import ActorHost, OperatorFailed
from rillflow.engines.local_wire import Packet, Receiver, make_ref
from rillflow.engines.serial import pack
from rillflow.errors import describe_exception
from rillflow.types import ActorInfo, Ref, Source

_F_SETSIG = 10


def die_with_driver(lifeline: int) -> None:
    """Let the kernel kill this process group when the driver is gone, however it went.

    The driver holds the other end of a pipe and never writes. When it ends, the kernel sends the
    signal, even if this process is stuck in C code and could not run a line of Python.
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
    if gone:  # it ended before the signal was armed
        os._exit(1)


def let_the_driver_go_first() -> None:
    """A worker that is woken by the driver runs when the driver rests, not in its place.

    Otherwise a driver that has asked one worker may get the processor back only when that worker's
    time slice is over, three milliseconds later, while another waits to be asked.
    """
    with contextlib.suppress(OSError):  # somebody does not allow it: it is only quicker
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class _Named(io.TextIOBase):
    """A stream that puts the actor's name before each line."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self.stream = stream
        self.prefix = f"({name}) "
        self.line = ""

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


class Worker:
    """Handles the driver's messages one by one."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.receiver = Receiver(sock)
        self.host: ActorHost | None = None

    def run(self) -> None:
        """Until the driver says stop, or is gone."""
        kinds = ("start", "install", "request", "tell", "call")
        handlers = {kind: getattr(self, f"on_{kind}") for kind in kinds}
        stopping = False
        while not stopping and (messages := self.receiver.receive()) is not None:
            for (kind, *fields), payload in messages:
                stopping = kind == "stop"
                if stopping:
                    break
                handlers[kind](payload, *fields)
        if self.host is not None:
            self.host.close()

    def on_start(
        self,
        payload: Ref,
        who: tuple[Any, ...],
        paths: list[str],
        directory: str,
    ) -> None:
        sys.path[:] = paths
        with contextlib.suppress(OSError):  # the driver's directory may be gone by now
            os.chdir(directory)
        info = ActorInfo(*who)
        sys.stdout, sys.stderr = _Named(sys.stdout, info.name), _Named(sys.stderr, info.name)
        random.seed(info.seed)
        try:
            code, handle = payload.get()
            self.host = ActorHost(info, code, handle)
            self._seed_numpy(info.seed)
        except Exception as error:
            self.send(("lost", describe_exception(error)))
            sys.stdout.close()
            os._exit(1)

    @staticmethod
    def _seed_numpy(seed: int) -> None:
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed)

    def on_install(self, payload: Ref, pipeline: str) -> None:
        assert self.host is not None
        try:
            self.host.install(pipeline, payload.get())
        except Exception as error:
            self.send(("failed", None, describe_exception(error, pipeline)))

    def on_request(
        self,
        payload: Ref | None,
        request: int,
        pipeline: str,
        seq: int,
        sources: list[tuple[str, int, int, int]],
    ) -> None:
        assert self.host is not None
        provenance = tuple([Source(*source) for source in sources])
        try:
            header, value = self.host.request(pipeline, seq, payload, provenance)
            result = make_ref(pack(value, by_value=False)) if header.items else None
        except OperatorFailed as failed:
            self.send(("failed", request, describe_exception(failed.error, failed.operator)))
        except Exception as error:
            self.send(("failed", request, describe_exception(error)))
        else:
            self.send(("done", request, tuple(header)), result)

    def on_tell(self, payload: Ref, method: str, spread: bool, version: int | None) -> None:
        assert self.host is not None
        try:
            self.host.tell(method, payload, spread, version)
        except Exception as error:
            self.send(("failed", None, describe_exception(error, method)))

    def on_call(self, payload: Ref, request: int, method: str) -> None:
        assert self.host is not None
        try:
            result = make_ref(pack(self.host.call(method, payload), by_value=False))
        except Exception as error:
            self.send(("failed", request, describe_exception(error, method)))
        else:
            self.send(("done", request, ()), result)

    def send(self, meta: tuple[Any, ...], payload: Ref | None = None) -> None:
        """Answer the driver."""
        Packet([(meta, payload)]).send(self.sock)


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
