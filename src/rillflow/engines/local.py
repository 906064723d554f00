"""Processes and shared memory on one machine: the embedded default.

Each actor is a process started as `python -m rillflow.engines.local_worker`, in a session of its
own, with code shipped by value: scripts need no `__main__` guard, notebooks work. The driver sleeps
in one `epoll` on sockets and process descriptors; nothing polls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import socket
import sys
import threading
import time
from collections import deque
from typing import Any

from rillflow.engines.contract import ActorSpec, Completed, Engine, Event, Port
from rillflow.engines.local_dead_worker import lost_event
from rillflow.engines.local_memory import ran_out
from rillflow.engines.local_process import Process, kill_group, wait_for
from rillflow.engines.local_wire import packed
from rillflow.engines.replies import event_of
from rillflow.engines.same_process import SameProcess
from rillflow.errors import EngineError
from rillflow.types import Ref

_new: Any = tuple.__new__
_OUT = select.EPOLLOUT
_GRACE = 0.5
"""seconds an actor has to close itself before its process group is killed"""


class Local(Engine):
    """The local engine: a process for each actor, and arrays in shared memory.

    Args:
        threads: of numerical libraries in a worker, at most.
    """

    name = "local"
    now = staticmethod(time.monotonic)  # not wrapped: the clock is read several times for each item

    def __init__(self, *, threads: int = 1) -> None:
        if not hasattr(os, "memfd_create") or not hasattr(os, "pidfd_open"):
            raise EngineError(
                "the local engine needs Linux (memfd, pidfd); use engine='sim' here, or 'ray'."
            )
        self.threads = threads
        self._processes: dict[str, Process] = {}
        self._leaving: set[Process] = set()
        """processes that close themselves; what is left of them is killed at the end"""
        self._opened = False
        self._epoll: select.epoll
        self._wake_in: socket.socket
        self._wake_out: socket.socket
        self._watched: dict[int, Process] = {}
        """worker processes by each of their two descriptors"""
        self._events: deque[Event] = deque()
        self._asleep = False
        """the driver sleeps, or is about to: a thread that has an event wakes it"""
        self._here = SameProcess(self._emit, self._events.append)
        self._dirty: list[Process] = []
        """processes to which something is to be sent"""
        self._owner = os.getpid()
        self._closed = False
        self._lock = threading.Lock()

    def open(self, seed: int) -> None:
        try:
            self._epoll = select.epoll()
            self._wake_in, self._wake_out = socket.socketpair()
        except OSError as error:
            raise ran_out(error, "open what the driver waits on") from error
        self._opened = True
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        self._epoll.register(self._wake_out.fileno(), select.EPOLLIN)

    # -- the contract --------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> Port:
        if spec.placement != "process":
            return self._here.start(spec)
        process = Process(spec, self.threads, self._dirty, self._forget, self._let_go)
        self._processes[spec.name] = process
        for fd in (process.fd, process.pidfd):
            self._epoll.register(fd, select.EPOLLIN)
            self._watched[fd] = process
        who = dataclasses.astuple(spec.info)
        order = ("start", who, spec.mailbox, list(sys.path), os.getcwd())
        process.send(order, packed((spec.code, spec.handle)))
        return process

    def put(self, value: Any) -> Ref:
        return packed(value)

    def inline_busy(self) -> dict[str, float]:
        return dict(self._here.busy)

    def pids(self) -> dict[str, int]:
        return {name: process.process.pid for name, process in list(self._processes.items())}

    def wait(self, timeout: float | None) -> list[Event]:
        events = self._events
        if self._dirty:
            self.flush()
        if self._here.jobs:
            try:
                self._here.work(events.__len__)
            finally:
                self.inline_seconds = self._here.seconds
            if events and timeout != 0.0:
                # the driver waited for itself: no need to ask the system about the others
                return [events.popleft()]
            timeout = 0.0
            if self._dirty:
                self.flush()
        if events:
            timeout = 0.0
        return self._collect(self._epoll.poll(0.0) if timeout == 0.0 else self._sleep(timeout))

    def peek(self) -> list[Event]:
        return self._collect(self._epoll.poll(0.0))

    def _collect(self, ready: list[tuple[int, int]]) -> list[Event]:
        """Everything that has come from processes and threads."""
        events, taken, watched = self._events, [], self._watched
        while events:  # threads may add events meanwhile
            taken.append(events.popleft())
        for fd, mask in ready:
            process = watched.get(fd)
            if process is None:
                self._drain_wakeups()
            elif not process.closed:
                if mask & _OUT:
                    self._set_interest(process, process.flush())
                if mask & ~_OUT:
                    self._receive(process, fd == process.pidfd, taken)
        return taken

    def _sleep(self, timeout: float | None) -> list[tuple[int, int]]:
        """Sleep until a descriptor is ready.

        A thread adds its event before it looks whether the driver sleeps. The driver says that it
        sleeps before it looks for events once more. So one of the two sees the other.
        """
        self._asleep = True
        try:
            return self._epoll.poll(0.0 if self._events else timeout)
        finally:
            self._asleep = False

    def flush(self) -> None:
        dirty = self._dirty
        while dirty:
            process = dirty.pop()
            waits = process.send_collected()
            if waits:
                self._set_interest(process, waits)

    def wake(self) -> None:
        if self._opened:
            with contextlib.suppress(OSError):  # full: the driver is awake; closed: nobody listens
                self._wake_in.send(b"\0")

    def close(self) -> None:
        with self._lock:
            if self._closed or not self._opened or os.getpid() != self._owner:
                return
            self._closed = True
        processes = [*self._processes.values(), *self._leaving]
        for process in processes:
            process.say_stop()
        wait_for(processes, _GRACE)
        for process in processes:
            kill_group(process)
            process.close()
        self._processes.clear()
        self._leaving.clear()
        self._watched.clear()
        self._dirty.clear()
        self._here.close()
        self._events.clear()
        self._epoll.close()
        self._wake_in.close()
        self._wake_out.close()

    # -- sockets -------------------------------------------------------------------------------

    def _set_interest(self, process: Process, waits: bool) -> None:
        interest = select.EPOLLIN | select.EPOLLOUT if waits else select.EPOLLIN
        if interest != process.interest and not process.closed:
            process.interest = interest
            self._epoll.modify(process.fd, interest)

    def _receive(self, process: Process, died: bool, events: list[Event]) -> None:
        """Take all that has come from a worker; at the end of its life, report the loss."""
        name, incarnation = process.name, process.incarnation
        try:
            while (replies := process.receiver.receive()) is not None:
                for meta, payload in replies:
                    if meta[0] == "done":  # as `event_of`, without the call
                        process.unanswered -= 1
                        done = (name, incarnation, meta[1], meta[2], payload)
                        events.append(_new(Completed, done))
                    else:
                        events.append(event_of(name, incarnation, (meta, payload)))
                if process.unanswered <= 0 and meta[0] == "done" and not died:
                    return  # no answer is due: to receive again would only say "not now"
        except BlockingIOError:
            if not died:
                return
        except ConnectionResetError:
            # it ended with orders unread; the system says so first, and then gives what it answered
            self._receive(process, True, events)
            return
        self._lost(process, events)

    def _lost(self, process: Process, events: list[Event]) -> None:
        self._forget(process)
        event = lost_event(process)
        if event is not None:
            events.append(event)
        process.close()

    def _forget(self, process: Process) -> None:
        self._leaving.discard(process)
        if self._processes.get(process.name) is process:
            del self._processes[process.name]
        for fd in (process.fd, process.pidfd):
            if self._watched.pop(fd, None) is not None:
                self._epoll.unregister(fd)

    def _let_go(self, process: Process) -> None:
        """A process that closes itself counts no longer, but its end has to be noticed."""
        del self._processes[process.name]
        self._leaving.add(process)

    # -- threads -------------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        """From any thread: queue an event and wake the driver."""
        self._events.append(event)
        if self._asleep:
            self.wake()

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):  # if there is more, epoll will say so again
            self._wake_out.recv(4096)
