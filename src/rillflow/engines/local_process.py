"""A worker process, and the driver's ends of its socket and lifeline."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable

from rillflow.engines.contract import ActorSpec, Order, Port
from rillflow.engines.local_memory import ran_out
from rillflow.engines.local_wire import (
    AT_ONCE,
    Packet,
    Receiver,
    Sender,
    make_room,
    packed,
)
from rillflow.types import Ref

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Process(Port):
    """One worker process: orders that are to be sent to it, and answers that have come."""

    def __init__(
        self,
        spec: ActorSpec,
        threads: int,
        dirty: list[Process],
        ended: Callable[[Process], None],
        leaves: Callable[[Process], None],
    ) -> None:
        self.name, self.incarnation = spec.name, spec.incarnation
        self._dirty = dirty
        self._ended = ended
        self._leaves = leaves
        self.closed = False
        self.leaving = False
        """the process was told to close itself"""
        try:
            self._launch(spec, threads)
        except OSError as error:
            raise ran_out(error, f"start a process for actor {spec.name!r}") from error
        self.fd = self.socket.fileno()
        self._send = self.socket.send
        self.receiver = Receiver(self.socket)
        self.sender = Sender()
        self.unanswered = 0
        """requests and calls that the process has not answered"""
        self.outbox: deque[Packet] = deque()
        """packets for which the socket had no room"""
        self.interest = select.EPOLLIN

    def _launch(self, spec: ActorSpec, threads: int) -> None:
        with contextlib.ExitStack() as unless_done:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            unless_done.callback(ours.close)
            read = -1
            try:
                make_room(ours)
                make_room(theirs)
                read, self.lifeline = os.pipe()
                unless_done.callback(os.close, self.lifeline)
                self.process = subprocess.Popen(
                    _command(theirs.fileno(), read),
                    pass_fds=(theirs.fileno(), read),
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    env=_environment(threads),
                )
            finally:
                theirs.close()
                if read >= 0:
                    os.close(read)
            self.pidfd = os.pidfd_open(self.process.pid)
            ours.setblocking(False)
            self.socket = ours
            unless_done.pop_all()

    # -- the port ------------------------------------------------------------------------------

    def send(self, order: Order, payload: Ref | None = None) -> None:
        """Collect an order; all orders of one step leave together and wake the worker once."""
        if self.closed:
            return
        sender = self.sender
        if not sender.table:
            self._dirty.append(self)
        if payload is None:
            sender.table.append((order, None))
        else:
            sender.add(order, payload)
        if order[0] in _ANSWERED:
            self.unanswered += 1

    pack = staticmethod(packed)

    def kill(self) -> None:
        if not self.closed:
            self._ended(self)
            kill_group(self)
            self.close()

    def retire(self) -> None:
        if not (self.closed or self.leaving):
            self.send(("stop",))
            self.leaving = True
            self._leaves(self)

    # -- the socket ----------------------------------------------------------------------------

    def send_collected(self) -> bool:
        """Send what was collected; True: the socket has no room for some of it."""
        sender = self.sender
        if not sender.table:
            return False
        if not self.outbox and len(sender.table) <= AT_ONCE:
            data, keep = sender.take()
            if not keep:
                try:
                    self._send(data)  # the usual case: nothing waits, and there is room
                    return False
                except OSError:  # there is no room, or nobody there: the packet waits
                    pass
            self.outbox.append(Packet(data, keep))
        else:
            self.outbox.extend(sender.packets())
        return self.flush()

    def say_stop(self) -> None:
        """Have the process close itself, instead of doing what has not been sent."""
        self.sender.clear()
        self.sender.add(("stop",), None)
        with contextlib.suppress(OSError):
            self.socket.setblocking(False)
            Packet(*self.sender.take()).send(self.socket)

    def flush(self) -> bool:
        """Send what the socket takes; True: some of it has to wait for room."""
        try:
            while self.outbox:
                self.outbox[0].send(self.socket)
                self.outbox.popleft()
        except BlockingIOError:
            return True
        except (BrokenPipeError, ConnectionResetError):
            self.outbox.clear()  # the process died; its descriptors will say so
        return False

    def close(self) -> None:
        """Let go of the descriptors; the lifeline kills whatever is left of the process group."""
        if not self.closed:
            self.closed = True
            self.socket.close()
            os.close(self.pidfd)
            os.close(self.lifeline)
            self.sender.clear()
            self.outbox.clear()


_ANSWERED = frozenset({"request", "call"})


def _command(sock: int, lifeline: int) -> list[str]:
    return [sys.executable, "-P", "-m", "rillflow.engines.local_worker", str(sock), str(lifeline)]


def _environment(threads: int) -> dict[str, str]:
    """One thread for numerical libraries, and this very rillflow."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    limits = dict.fromkeys(_ONE_THREAD, str(threads))
    return {**limits, **os.environ, "PYTHONPATH": paths}


def kill_group(process: Process) -> None:
    """End a worker and everything it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.process.pid, signal.SIGKILL)
    process.process.wait()


def wait_for(processes: list[Process], seconds: float) -> None:
    """Until all have ended, or the time is up."""
    deadline = time.monotonic() + seconds
    waiting = {process.pidfd for process in processes}
    poll = select.poll()
    for pidfd in waiting:
        poll.register(pidfd, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for pidfd, _ in poll.poll(left * 1000):
            poll.unregister(pidfd)
            waiting.discard(pidfd)
