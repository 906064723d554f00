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

from rillflow.engines.contract import ActorSpec
from rillflow.engines.local_wire import Message, Packet, Receiver, make_room
from rillflow.errors import EngineError

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Process:
    """One worker process; what is to be sent to it, and what came."""

    def __init__(self, spec: ActorSpec, threads: int) -> None:
        self.name, self.incarnation = spec.name, spec.incarnation
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        make_room(ours)
        make_room(theirs)
        read, self.lifeline = os.pipe()
        environment = {**{variable: str(threads) for variable in _ONE_THREAD}, **os.environ}
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [source, os.environ.get("PYTHONPATH")])
        )
        command = [
            sys.executable,
            "-m",
            "rillflow.engines.local_worker",
            str(theirs.fileno()),
            str(read),
        ]
        try:
            self.process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(), read),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            ours.close()
            os.close(self.lifeline)
            raise EngineError(f"cannot start a process for actor {spec.name!r}: {error}") from error
        finally:
            theirs.close()
            os.close(read)
        ours.setblocking(False)
        self.socket = ours
        self.fd = ours.fileno()
        self.receiver = Receiver(ours)
        self.pidfd = os.pidfd_open(self.process.pid)
        self.collected: list[Message] = []
        self.urgent = False
        """a request is among what was collected"""
        self.outbox: deque[Packet] = deque()
        self.interest = select.EPOLLIN
        self.closed = False

    def close(self) -> None:
        """Let go of the descriptors; the lifeline kills whatever is left of the process group."""
        if not self.closed:
            self.closed = True
            self.socket.close()
            os.close(self.pidfd)
            os.close(self.lifeline)


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
