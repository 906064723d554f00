"""Several learners that are one: each has its part of every minibatch, gradients are averaged.

The first learner is where a learner always is, in the driver, its thread or its process. It starts
the others as processes beside itself and tells them what it does: each gets the same batches, makes
the same rows of them, draws the same minibatches, and takes its own part of each. After every step
all have the same weights, because all have added up the same gradients. So there is one state, the
first one's.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import cloudpickle

from rillflow.errors import RunError

T = TypeVar("T")

PATIENCE = 300.0
"""seconds that a learner is waited for that is alive, and does not answer"""
HERE = "here"
_UNHEARD = ("closed by peer", "imed out", "imeout", "reset by peer", "NCCL")
"""in what `torch.distributed` says when somebody does not answer"""
_MOMENT = 2.0
"""seconds between what an end can be seen by and the end"""
_END = 5.0
"""seconds that one has to end by itself"""
_HEAD = struct.Struct("!Q")


class LearnersLost(RunError):  # noqa: N818 - what it is, not that it is an error
    """One of several learners has ended, or does not answer."""


def send(sock: socket.socket, value: Any) -> None:
    """A value, whose arrays are not copied on their way out of here."""
    buffers: list[pickle.PickleBuffer] = []
    body = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [body, *[buffer.raw() for buffer in buffers]]
    sock.sendall(b"".join([_HEAD.pack(len(parts)), *[_HEAD.pack(len(part)) for part in parts]]))
    for part in parts:
        sock.sendall(part)


def receive(sock: socket.socket) -> Any:
    """The next value; EOFError: there is nobody on the other side any more."""
    count = _HEAD.unpack(_exactly(sock, _HEAD.size))[0]
    sizes = _exactly(sock, count * _HEAD.size)
    body, *buffers = [_exactly(sock, size) for (size,) in _HEAD.iter_unpack(sizes)]
    return pickle.loads(body, buffers=buffers)


def _exactly(sock: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        got = sock.recv_into(view)
        if not got:
            raise EOFError
        view = view[got:]
    return data


class LearnerGroup:
    """The learners beside the first one, each in a process of its own.

    Args:
        job: what they are made of: `learner_beside` takes it.
        size: of all learners, the first one counted.
        patience: seconds that one which is alive is waited for.
    """

    def __init__(self, job: Any, size: int, patience: float) -> None:
        self.patience = patience
        self.processes: list[subprocess.Popen[bytes]] = []
        self.sockets: list[socket.socket] = []
        self._finalizer = weakref.finalize(self, _end, self.processes, self.sockets)
        for rank in range(1, size):
            here, there = socket.socketpair()
            here.settimeout(patience)
            with there:
                self.processes.append(
                    subprocess.Popen(
                        [sys.executable, "-P", "-m", "rillflow.learning.learner_beside",
                         str(there.fileno())],
                        pass_fds=(there.fileno(),),
                        stdin=subprocess.DEVNULL,
                        start_new_session=True,  # Ctrl-C is the first one's to hear
                        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    )
                )  # fmt: skip
            self.sockets.append(here)
            self.tell_one(rank, {**job, "rank": rank})
        for sock in self.sockets:
            self._wait_for(sock)

    def _wait_for(self, sock: socket.socket) -> None:
        """Until a learner is made; it says so, or what became of it."""
        try:
            said = receive(sock)
        except (OSError, EOFError) as error:
            raise self.lost(error) from error
        if said != HERE:
            raise self.lost(RuntimeError(said), said)

    def tell_one(self, rank: int, value: Any) -> None:
        """Send something to one of them."""
        try:
            send(self.sockets[rank - 1], value)
        except OSError as error:
            raise self.lost(error) from error

    def tell(self, method: str, *arguments: Any) -> None:
        """Have all of them do what is done here: a method with the same arguments."""
        for rank in range(1, len(self.sockets) + 1):
            self.tell_one(rank, (method, arguments))

    def together(self, work: Callable[[], T]) -> T:
        """What all of them do at once; one that has ended is told as what it is."""
        try:
            return work()
        except RuntimeError as error:
            unheard = any(word in str(error) for word in _UNHEARD)
            if isinstance(error, RunError) or not (unheard or self._somebody_ended()):
                raise
            raise self.lost(error) from error

    def _somebody_ended(self) -> bool:
        return any(_has_ended(process) for process in self.processes)

    def lost(self, error: BaseException, words: str = "") -> LearnersLost:
        """The error for one that has ended, in its own words if it had any; all others end."""
        found = [f"one {words}"] if words else []
        for rank, (process, sock) in enumerate(
            zip(self.processes, self.sockets, strict=True), start=1
        ):
            said = "" if words else _last_words(sock)
            if said or (not words and _has_ended(process)):
                found.append(f"learner {rank} {said or _ended_by(process.returncode)}")
        self.close()
        told = "; ".join(found) or f"nobody answered within {self.patience:g} s ({error})"
        return LearnersLost(
            f"of {len(self.processes) + 1} learners one is missing: {told}. They learn together or "
            "not at all: all have ended. Resume the run from its last checkpoint, or learn with "
            "num_learners=1."
        )

    def close(self) -> None:
        """End them; twice is once."""
        self._finalizer()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended, or does so now: what it held is closed a moment before."""
    try:
        process.wait(_MOMENT)
    except subprocess.TimeoutExpired:
        return False
    return True


def _last_words(sock: socket.socket) -> str:
    """What a learner said before it ended; nothing, if it said nothing."""
    try:
        sock.settimeout(_END)
        return str(receive(sock))
    except (OSError, EOFError):
        return ""


def _ended_by(code: int | None) -> str:
    return f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with {code}"


def _end(processes: list[subprocess.Popen[bytes]], sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()  # whoever waits for what comes next sees it, and ends
    for process in processes:
        try:
            process.wait(_END if process.poll() is None else 0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
