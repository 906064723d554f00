"""Processes and shared memory on one machine: the embedded default.

Each actor is a process started as `python -m rillflow.engines.local_worker`, in a session of its own,
with code shipped by value: scripts need no `__main__` guard, notebooks work. The driver sleeps in
one `epoll` on sockets and process descriptors; nothing polls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from typing import Any

from rillflow.engines.contract import ActorSpec, Completed, Engine, Event, Failed, Lost
from rillflow.engines.local_memory import ShmRef
from rillflow.engines.local_process import Process, kill_group, wait_for
from rillflow.engines.local_wire import AT_ONCE, Packet, make_ref, packets
from rillflow.engines.same_process import Inside, call_job, install_job, request_job, tell_job
from rillflow.engines.serial import PackedRef, ValueRef, lend, pack
from rillflow.errors import EngineError
from rillflow.types import Header, Provenance, Ref

_GRACE = 0.5
"""seconds an actor has to close itself before its process group is killed"""


class Local(Engine):
    """The local engine. `threads` caps the threads of numerical libraries in a worker."""

    name = "local"
    now = staticmethod(time.monotonic)  # as it is: it is read several times for each item

    def __init__(self, *, threads: int = 1) -> None:
        if not hasattr(os, "memfd_create") or not hasattr(os, "pidfd_open"):
            raise EngineError(
                "the local engine needs Linux (memfd, pidfd); use engine='sim' here, or 'ray'."
            )
        self.threads = threads
        self._processes: dict[str, Process] = {}
        self._opened = False
        self._epoll: select.epoll
        self._wake_in: socket.socket
        self._wake_out: socket.socket
        self._watched: dict[int, Process] = {}
        """worker processes by each of their two descriptors"""
        self._events: deque[Event] = deque()
        self._asleep = False
        """the driver sleeps, or is about to: a thread that has an event wakes it"""
        self._inside = Inside(self._emit, self._events.append)
        self._dirty: list[Process] = []
        self._owner = os.getpid()
        self._closed = False
        self._lock = threading.Lock()

    def open(self, seed: int) -> None:
        self._opened = True
        self._epoll = select.epoll()
        self._wake_in, self._wake_out = socket.socketpair()
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        self._epoll.register(self._wake_out.fileno(), select.EPOLLIN)

    # -- the contract --------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> None:
        if spec.placement != "process":
            self._inside.start(spec)
            return
        process = self._processes[spec.name] = Process(spec, self.threads)
        for fd in (process.fd, process.pidfd):
            self._epoll.register(fd, select.EPOLLIN)
            self._watched[fd] = process
        who = dataclasses.astuple(spec.info)
        self._send(
            process,
            ("start", who, list(sys.path), os.getcwd()),
            make_ref(pack((spec.code, spec.handle))),
        )

    def install(self, actor: str, pipeline: str, code: bytes) -> None:
        if actor in self._inside.actors:
            self._inside.post(actor, install_job(pipeline, code))
        elif process := self._processes.get(actor):
            self._send(process, ("install", pipeline), make_ref(pack(code)))

    def request(
        self,
        actor: str,
        request: int,
        pipeline: str,
        seq: int,
        payload: Ref | None = None,
        provenance: Provenance = (),
    ) -> None:
        if actor in self._inside.actors:
            self._inside.post(actor, request_job(request, pipeline, seq, payload, provenance))
        elif process := self._processes.get(actor):
            plain = [tuple(source) for source in provenance]
            self._send(process, ("request", request, pipeline, seq, plain), _sendable(payload))

    def tell(
        self, actor: str, method: str, payload: Ref, spread: bool, version: int | None
    ) -> None:
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

    def lend(self, actor: str, value: Any) -> Ref:
        return lend(value) if actor in self._inside.actors else self.put(value)

    def give(self, actor: str, value: Any) -> Ref:
        return lend(value, copy=True) if actor in self._inside.actors else self.put(value)

    def kill(self, actor: str) -> None:
        self._inside.kill(actor)
        process = self._processes.pop(actor, None)
        if process is not None:
            self._forget(process)
            kill_group(process)
            process.close()

    @property
    def inline_seconds(self) -> float:
        return self._inside.seconds

    def inline_busy(self) -> dict[str, float]:
        return dict(self._inside.busy)

    def pids(self) -> dict[str, int]:
        return {name: process.process.pid for name, process in self._processes.items()}

    def wait(self, timeout: float | None) -> list[Event]:
        if self._inside.inline:
            if self._dirty:  # others may work meanwhile
                self._send_collected(everything=False)
            self._inside.run_inline(self._events.__len__)
            if self._events and timeout != 0.0:
                # the driver waited for itself: no need to ask the system about the others
                return [self._events.popleft()]
            timeout = 0.0
        if self._events:
            timeout = 0.0
        if self._dirty:
            self._send_collected(everything=timeout != 0.0)
        ready = self._epoll.poll(0.0) if timeout == 0.0 else self._sleep(timeout)
        for fd, mask in ready:
            process = self._watched.get(fd)
            if process is None:
                self._drain_wakeups()
            elif not process.closed:
                if mask & select.EPOLLOUT:
                    self._flush(process)
                if mask & ~select.EPOLLOUT:
                    self._receive(process, died=fd == process.pidfd)
        events = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def _sleep(self, timeout: float | None) -> list[tuple[int, int]]:
        """Until a descriptor is ready. A thread first adds its event, then looks whether we sleep;
        we look for events once more after we have said so: one of the two sees the other."""
        self._asleep = True
        try:
            return self._epoll.poll(0.0 if self._events else timeout)
        finally:
            self._asleep = False

    def close(self) -> None:
        with self._lock:
            if self._closed or not self._opened or os.getpid() != self._owner:
                return
            self._closed = True
        processes = list(self._processes.values())
        for process in processes:
            with contextlib.suppress(OSError):
                Packet([(("stop",), None)]).send(process.socket)
        wait_for(processes, _GRACE)
        for process in processes:
            kill_group(process)
            process.close()
        self._processes.clear()
        self._inside.close()
        self._epoll.close()
        self._wake_in.close()
        self._wake_out.close()

    # -- sockets -------------------------------------------------------------------------------

    def _send(self, process: Process, meta: tuple[Any, ...], payload: Ref | None = None) -> None:
        """Collect a message; those of one step leave together and wake the worker once."""
        if not process.collected:
            self._dirty.append(process)
        process.collected.append((meta, payload))
        if meta[0] == "request":
            process.urgent = True

    def flush(self) -> None:
        if self._dirty:
            self._send_collected(everything=False)

    def _send_collected(self, everything: bool) -> None:
        """What goes to a worker leaves in one packet, with its request: that wakes it only once.

        Messages alone wait for the next request, or until the driver has nothing else to do:
        nothing depends on them before.
        """
        kept: list[Process] = []
        for process in self._dirty:
            if process.closed:
                continue
            if not (everything or process.urgent):
                kept.append(process)
                continue
            process.urgent = False
            collected, process.collected = process.collected, []
            waiting = bool(process.outbox)
            if not waiting and len(collected) <= AT_ONCE:
                self._send_packet(process, Packet(collected))
                continue
            process.outbox.extend(packets(collected))
            if not waiting:
                self._flush(process)
        self._dirty = kept

    def _send_packet(self, process: Process, packet: Packet) -> None:
        """The usual case: nothing waits, and the socket has room."""
        try:
            packet.send(process.socket)
        except OSError:  # there is no room, or nobody there: as for a packet that waits
            process.outbox.append(packet)
            self._flush(process)

    def _flush(self, process: Process) -> None:
        """Send what the socket takes; the rest when it has room again."""
        interest = select.EPOLLIN
        try:
            while process.outbox:
                process.outbox[0].send(process.socket)
                process.outbox.popleft()
        except BlockingIOError:
            interest |= select.EPOLLOUT
        except (BrokenPipeError, ConnectionResetError):
            process.outbox.clear()  # it died; its descriptors will say so
        if interest != process.interest:
            process.interest = interest
            self._epoll.modify(process.fd, interest)

    def _receive(self, process: Process, died: bool) -> None:
        """Take all that has come from a worker; at the end of its life, report the loss."""
        try:
            while (messages := process.receiver.receive()) is not None:
                for meta, payload in messages:
                    self._events.append(self._event(process, meta, payload))
                if not died:
                    return  # others may have something too; the rest is still there next time
        except BlockingIOError:
            if not died:
                return
        except ConnectionResetError:
            died = True
        self._lost(process)

    def _event(self, process: Process, meta: tuple[Any, ...], payload: Ref | None) -> Event:
        kind = meta[0]
        if kind == "done":
            return Completed(process.name, process.incarnation, meta[1], Header(*meta[2]), payload)
        if kind == "failed":
            return Failed(process.name, process.incarnation, meta[1], meta[2])
        return Lost(process.name, process.incarnation, "its constructor raised", meta[1])

    def _lost(self, process: Process) -> None:
        self._forget(process)
        if self._processes.get(process.name) is process:
            del self._processes[process.name]
        wait_for([process], 0.2)  # its socket may have closed a moment before it ended
        code = process.process.poll()
        kill_group(process)
        code = process.process.wait() if code is None else code
        how = (
            f"was killed by {signal.Signals(-code).name}"
            if code < 0
            else f"exited with code {code}"
        )
        self._events.append(Lost(process.name, process.incarnation, f"its process {how}"))
        process.close()

    def _forget(self, process: Process) -> None:
        for fd in (process.fd, process.pidfd):
            if self._watched.pop(fd, None) is not None:
                self._epoll.unregister(fd)

    # -- threads -------------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        """From any thread: queue an event and wake the driver."""
        self._events.append(event)
        if self._asleep:
            with contextlib.suppress(OSError):  # full: it is awake already; closed: nobody listens
                self._wake_in.send(b"\0")

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):  # if there is more, epoll will say so again
            self._wake_out.recv(4096)


def _sendable(payload: Ref | None) -> Ref | None:
    """A reference in a form that can leave the process."""
    if payload is None or isinstance(payload, PackedRef | ShmRef):
        return payload
    value = payload.value if isinstance(payload, ValueRef) else payload.get()
    return make_ref(pack(value))
