"""Processes and shared memory on one machine: the embedded default.

Each actor is a process started as `python -m rillflow.engines.worker`, in a session of its own,
with code shipped by value: scripts need no `__main__` guard, notebooks work. The driver sleeps in
one `epoll` on sockets and process descriptors; nothing polls.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from typing import Any

from rillflow.engines.base import ActorSpec, Completed, Engine, Event, Failed, Lost
from rillflow.engines.inside import Inside, call_job, install_job, request_job, tell_job
from rillflow.engines.serial import PackedRef, ValueRef, pack
from rillflow.engines.shm import ShmRef
from rillflow.engines.wire import Packet, Receiver, make_ref
from rillflow.errors import EngineError
from rillflow.types import Provenance, Ref

_GRACE = 0.5
"""seconds an actor has to close itself before its process group is killed"""
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class _Process:
    """One worker process and the driver's ends of its socket and lifeline."""

    def __init__(self, spec: ActorSpec, threads: int) -> None:
        self.name, self.incarnation = spec.name, spec.incarnation
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        read, self.lifeline = os.pipe()
        environment = {**{variable: str(threads) for variable in _ONE_THREAD}, **os.environ}
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "rillflow.engines.worker", str(theirs.fileno()), str(read)]
        try:
            self.process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(), read), start_new_session=True,
                stdin=subprocess.DEVNULL, env=environment,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            os.close(self.lifeline)
            raise EngineError(f"cannot start a process for actor {spec.name!r}: {error}") from error
        finally:
            theirs.close()
            os.close(read)
        ours.setblocking(False)
        self.socket = ours
        self.receiver = Receiver(ours)
        self.pidfd = os.pidfd_open(self.process.pid)
        self.outbox: deque[Packet] = deque()
        self.constructed = False
        self.closed = False

    def close(self) -> None:
        """Let go of the descriptors; the lifeline kills whatever is left of the process group."""
        if not self.closed:
            self.closed = True
            self.socket.close()
            os.close(self.pidfd)
            os.close(self.lifeline)


class Local(Engine):
    """The local engine. `threads` caps the threads of numerical libraries in each worker process."""

    name = "local"

    def __init__(self, *, threads: int = 1) -> None:
        if not hasattr(os, "memfd_create") or not hasattr(os, "pidfd_open"):
            raise EngineError(
                "the local engine needs Linux (memfd, pidfd); use engine='sim' here, or 'ray'."
            )
        self.threads = threads
        self._processes: dict[str, _Process] = {}
        self._selector = selectors.DefaultSelector()
        self._events: deque[Event] = deque()
        self._inside = Inside(self._emit)
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)
        self._owner = os.getpid()
        self._closed = False
        self._lock = threading.Lock()

    # -- the contract --------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> None:
        if spec.placement != "process":
            self._inside.start(spec)
            return
        process = self._processes[spec.name] = _Process(spec, self.threads)
        self._selector.register(process.socket, selectors.EVENT_READ, process)
        self._selector.register(process.pidfd, selectors.EVENT_READ, process)
        payload = make_ref(pack((list(sys.path), os.getcwd(), spec.code, spec.handle)))
        self._send(process, ("start", spec.name, spec.index, spec.incarnation, spec.seed), payload)

    def install(self, actor: str, pipeline: str, code: bytes) -> None:
        if actor in self._inside.actors:
            self._inside.post(actor, install_job(pipeline, code))
        elif process := self._processes.get(actor):
            self._send(process, ("install", pipeline), make_ref(pack(code)))

    def request(
        self, actor: str, request: int, pipeline: str, seq: int,
        payload: Ref | None = None, provenance: Provenance = (),
    ) -> None:  # fmt: skip
        if actor in self._inside.actors:
            self._inside.post(actor, request_job(request, pipeline, seq, payload, provenance))
        elif process := self._processes.get(actor):
            self._send(process, ("request", request, pipeline, seq, provenance), _sendable(payload))

    def tell(self, actor: str, method: str, payload: Ref, spread: bool, version: int | None) -> None:
        if actor in self._inside.actors:
            self._inside.post(actor, tell_job(method, payload, spread, version))
        elif process := self._processes.get(actor):
            self._send(process, ("tell", method, spread, version), _sendable(payload))

    def call(self, actor: str, request: int, method: str, payload: Ref) -> None:
        if actor in self._inside.actors:
            self._inside.post(actor, call_job(request, method, payload))
        elif process := self._processes.get(actor):
            self._send(process, ("call", request, method), _sendable(payload))

    def put(self, value: Any) -> Ref:
        return make_ref(pack(value))

    def kill(self, actor: str) -> None:
        self._inside.kill(actor)
        process = self._processes.pop(actor, None)
        if process is not None:
            self._forget(process)
            _kill_group(process)
            process.close()

    def now(self) -> float:
        return time.monotonic()

    def pids(self) -> dict[str, int]:
        return {name: process.process.pid for name, process in self._processes.items()}

    def wait(self, timeout: float | None) -> list[Event]:
        if self._inside.inline:
            self._inside.run_inline()
            timeout = 0.0
        if self._events:
            timeout = 0.0
        for key, mask in self._selector.select(timeout):
            process = key.data
            if process is None:
                self._drain_wakeups()
            elif not process.closed:
                if mask & selectors.EVENT_WRITE:
                    self._flush(process)
                if mask & selectors.EVENT_READ:
                    self._receive(process, died=key.fd == process.pidfd)
        events = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def close(self) -> None:
        with self._lock:
            if self._closed or os.getpid() != self._owner:
                return
            self._closed = True
        processes = list(self._processes.values())
        for process in processes:
            with contextlib.suppress(OSError):
                Packet(("stop",)).send(process.socket)
        _wait_for(processes, _GRACE)
        for process in processes:
            _kill_group(process)
            process.close()
        self._processes.clear()
        self._inside.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    # -- sockets -------------------------------------------------------------------------------

    def _send(self, process: _Process, meta: tuple[Any, ...], payload: Ref | None = None) -> None:
        packet = Packet(meta, payload)
        if process.outbox:
            process.outbox.append(packet)
            return
        try:
            packet.send(process.socket)
        except BlockingIOError:
            process.outbox.append(packet)
            self._selector.modify(
                process.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, process
            )
        except (BrokenPipeError, ConnectionResetError):
            return  # it died; its descriptors will say so

    def _flush(self, process: _Process) -> None:
        try:
            while process.outbox:
                process.outbox[0].send(process.socket)
                process.outbox.popleft()
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            process.outbox.clear()
        self._selector.modify(process.socket, selectors.EVENT_READ, process)

    def _receive(self, process: _Process, died: bool) -> None:
        """Take all that has come from a worker; at the end of its life, report the loss."""
        try:
            while (message := process.receiver.receive()) is not None:
                self._events.append(self._event(process, *message))
                if not died:
                    return  # others may have something too; the rest is still there next time
        except BlockingIOError:
            if not died:
                return
        except ConnectionResetError:
            died = True
        self._lost(process)

    def _event(self, process: _Process, meta: tuple[Any, ...], payload: Ref | None) -> Event:
        kind = meta[0]
        if kind == "done":
            return Completed(process.name, process.incarnation, meta[1], meta[2], payload)
        if kind == "failed":
            return Failed(process.name, process.incarnation, meta[1], meta[2])
        return Lost(process.name, process.incarnation, "its constructor raised", meta[1])

    def _lost(self, process: _Process) -> None:
        self._forget(process)
        if self._processes.get(process.name) is process:
            del self._processes[process.name]
        _kill_group(process)
        code = process.process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        self._events.append(Lost(process.name, process.incarnation, f"its process {how}"))
        process.close()

    def _forget(self, process: _Process) -> None:
        for source in (process.socket, process.pidfd):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(source)

    # -- threads -------------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        """From any thread: queue an event and wake the driver."""
        self._events.append(event)
        with contextlib.suppress(OSError):  # full: it is awake already; closed: nobody listens
            self._wake_in.send(b"\0")

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_out.recv(4096):
                pass


def _sendable(payload: Ref | None) -> Ref | None:
    """A reference in a form that can leave the process."""
    if payload is None or isinstance(payload, PackedRef | ShmRef):
        return payload
    value = payload.value if isinstance(payload, ValueRef) else payload.get()
    return make_ref(pack(value))


def _kill_group(process: _Process) -> None:
    """End a worker and everything it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.process.pid, signal.SIGKILL)
    process.process.wait()


def _wait_for(processes: list[_Process], seconds: float) -> None:
    """Until all have ended, or the time is up."""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for process in processes:
            selector.register(process.pidfd, selectors.EVENT_READ)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                selector.unregister(key.fileobj)
