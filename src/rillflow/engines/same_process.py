"""Actors in the driver's process: each on a thread of its own, or in the driver itself."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rillflow.engines.contract import ActorSpec, Event, Order, Port
from rillflow.engines.host import Host
from rillflow.engines.packing import hand_over
from rillflow.engines.replies import Reply, event_of
from rillflow.types import Ref

Job = tuple[Order, Ref | None]


def _answer(value: Any) -> Ref:
    """A result on its way out of an actor, which may go on using its buffers."""
    return hand_over(value)


class _Here(Port):
    """What actors of this process share: a host, and a way to report."""

    def __init__(self, spec: ActorSpec, emit: Callable[[Event], None]) -> None:
        self.spec = spec
        self.emit = emit
        self.host = Host(spec.info, spec.handle, spec.mailbox)
        self.alive = True

    def pack(self, value: Any) -> Ref:
        return hand_over(value)

    def say(self, reply: Reply | None) -> None:
        """Report to the driver, unless the driver has ended the actor meanwhile."""
        if reply is not None and self.alive:
            self.emit(event_of(self.spec.name, self.spec.incarnation, reply))

    def construct(self) -> bool:
        """Call the actor's constructor, in the place where the actor will live."""
        reply = self.host.start(self.spec.code)
        self.say(reply)
        return bool(reply[0][0] == "started")


class ThreadActor(_Here):
    """An actor on a thread of its own."""

    def __init__(self, spec: ActorSpec, emit: Callable[[Event], None]) -> None:
        super().__init__(spec, emit)
        self.inbox: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=spec.name, daemon=True)

    def send(self, order: Order, payload: Ref | None = None) -> None:
        self.inbox.put((order, payload))

    def kill(self) -> None:
        """No further job; a thread that is busy ends after its present one."""
        self.alive = False
        self.inbox.put(None)

    def retire(self) -> None:
        self.inbox.put(None)

    def _work(self) -> None:
        host = self.host
        if not self.construct():
            return
        while (job := self.inbox.get()) is not None and self.alive:
            self.say(host.handle(*job, _answer))
            if host.report_due == 2 or (host.report_due and self.inbox.empty()):
                self.say(host.acknowledge())
        host.close()


class InlineActor(_Here):
    """An actor in the driver itself, where its jobs are done when there is nothing else to do."""

    def __init__(self, spec: ActorSpec, emit: Callable[[Event], None], place: SameProcess) -> None:
        super().__init__(spec, emit)
        self.place = place

    def send(self, order: Order, payload: Ref | None = None) -> None:
        self.place.jobs.append((self, (order, payload)))

    def kill(self) -> None:
        self.alive = False

    def retire(self) -> None:
        self.alive = False
        self.host.close()

    def work(self, job: Job | None) -> None:
        """One job (None: the constructor), unless the actor was killed meanwhile."""
        if not self.alive:
            return
        if job is None:
            self.alive = self.construct()
            return
        self.say(self.host.handle(*job, _answer))
        if self.host.report_due:
            self.say(self.host.acknowledge())


class SameProcess:
    """The thread and driver actors of an engine; threads report through `emit`."""

    def __init__(self, emit: Callable[[Event], None], emit_inline: Callable[[Event], None]) -> None:
        self.emit = emit
        self.emit_inline = emit_inline
        self.threads: list[ThreadActor] = []
        self.inline: list[InlineActor] = []
        self.jobs: deque[tuple[InlineActor, Job | None]] = deque()
        """jobs of actors in the driver, done when the driver has nothing better to do"""
        self.seconds = 0.0
        """seconds that the driver has worked for actors that live in the driver"""
        self.busy: dict[str, float] = {}
        """by actor: seconds that the driver has worked for the actor"""

    def start(self, spec: ActorSpec) -> Port:
        """Bring an actor to life."""
        if spec.placement == "driver":
            inline = InlineActor(spec, self.emit_inline, self)
            self.inline = [a for a in self.inline if a.alive] + [inline]
            self.jobs.append((inline, None))
            return inline
        actor = ThreadActor(spec, self.emit)
        self.threads = [a for a in self.threads if a.thread.is_alive()] + [actor]
        actor.thread.start()
        return actor

    def work(self, events: Callable[[], int]) -> None:
        """Jobs of driver actors, until there is an event more."""
        there = events()
        while self.jobs and events() == there:
            actor, job = self.jobs.popleft()
            before = time.perf_counter()
            actor.work(job)
            took = time.perf_counter() - before
            self.seconds += took
            name = actor.spec.name
            self.busy[name] = self.busy.get(name, 0.0) + took
            if actor.host.interrupted:
                actor.host.interrupted = False
                raise KeyboardInterrupt

    def close(self) -> None:
        """End all threads; one that is busy for long is left to the end of the process."""
        self.jobs.clear()
        for actor in self.threads:
            actor.kill()
        for actor in self.threads:
            if actor.thread is not threading.current_thread():
                actor.thread.join(timeout=2.0)
        for one in self.inline:
            if one.alive:
                one.host.close()
        self.threads, self.inline = [], []
