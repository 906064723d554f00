"""Actors in the driver's own process: on a thread of their own, or in the driver itself."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rillflow.engines.contract import ActorSpec, Completed, Event, Failed, Lost
from rillflow.engines.host import ActorHost, OperatorFailed
from rillflow.engines.serial import ValueRef
from rillflow.errors import describe_exception
from rillflow.types import Header, Provenance, Ref

Job = Callable[["InsideActor"], None]


class InsideActor:
    """One actor: a host and the jobs it still has to do."""

    def __init__(self, spec: ActorSpec, emit: Callable[[Event], None]) -> None:
        self.spec = spec
        self.emit = emit
        self.host: ActorHost | None = None
        self.alive = True

    def construct(self) -> None:
        """Call the actor's constructor, where it will live."""
        spec = self.spec
        try:
            self.host = ActorHost(spec.info, spec.code, spec.handle)
        except Exception as error:
            self.alive = False
            self.say(
                Lost(
                    spec.name, spec.incarnation, "its constructor raised", describe_exception(error)
                )
            )

    def do(self, job: Job) -> None:
        """One job, unless the actor was killed meanwhile."""
        if self.alive and self.host is not None:
            job(self)

    def say(self, event: Event) -> None:
        """Report to the driver."""
        self.emit(event)

    def failed(self, request: int | None, error: Exception, operator: str = "") -> None:
        """Report an exception of user code."""
        if isinstance(error, OperatorFailed):
            operator = error.operator
            error = error.error
        self.say(
            Failed(
                self.spec.name, self.spec.incarnation, request, describe_exception(error, operator)
            )
        )


class Inside:
    """The thread and driver actors of an engine; threads report through `emit`."""

    def __init__(self, emit: Callable[[Event], None], emit_inline: Callable[[Event], None]) -> None:
        self.emit = emit
        self.emit_inline = emit_inline
        self.actors: dict[str, InsideActor] = {}
        self.inboxes: dict[str, queue.SimpleQueue[Job | None]] = {}
        self.inline: deque[tuple[InsideActor, Job]] = deque()
        """jobs of actors that live in the driver; done when it has nothing better to do"""
        self.threads: list[threading.Thread] = []
        self.seconds = 0.0
        """that the driver has worked for actors that live in it"""
        self.busy: dict[str, float] = {}
        """the same, by actor"""

    def start(self, spec: ActorSpec) -> None:
        inline = spec.placement == "driver"
        actor = InsideActor(spec, self.emit_inline if inline else self.emit)
        self.actors[spec.name] = actor
        if inline:
            self.inline.append((actor, lambda it: it.construct()))
            return
        inbox = self.inboxes[spec.name] = queue.SimpleQueue()
        thread = threading.Thread(target=_work, args=(actor, inbox), name=spec.name, daemon=True)
        self.threads.append(thread)
        thread.start()

    def post(self, name: str, job: Job) -> None:
        """Give an actor something to do, after everything it was given before."""
        actor = self.actors[name]
        if name in self.inboxes:
            self.inboxes[name].put(job)
        else:
            self.inline.append((actor, job))

    def run_inline(self, events: Callable[[], int]) -> None:
        """Jobs of driver actors, until there is an event more."""
        there = events()
        while self.inline and events() == there:
            actor, job = self.inline.popleft()
            before = time.perf_counter()
            if actor.host is None and actor.alive:
                job(actor)
            else:
                actor.do(job)
            took = time.perf_counter() - before
            self.seconds += took
            self.busy[actor.spec.name] = self.busy.get(actor.spec.name, 0.0) + took

    def kill(self, name: str) -> None:
        """No further job; a thread that is busy ends after it."""
        actor = self.actors.get(name)
        if actor is not None:
            actor.alive = False
        inbox = self.inboxes.pop(name, None)
        if inbox is not None:
            inbox.put(None)

    def close(self) -> None:
        """End all threads; one that is busy for long is left to the end of the process."""
        for name in list(self.actors):
            self.kill(name)
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(timeout=2.0)
        for actor in self.actors.values():
            if actor.host is not None:
                actor.host.close()
        self.actors.clear()
        self.inline.clear()


def _work(actor: InsideActor, inbox: queue.SimpleQueue[Job | None]) -> None:
    actor.construct()
    while (job := inbox.get()) is not None:
        actor.do(job)


def install_job(pipeline: str, code: bytes) -> Job:
    """Teach an actor a pipeline."""

    def job(actor: InsideActor) -> None:
        assert actor.host is not None
        try:
            actor.host.install(pipeline, code)
        except Exception as error:
            actor.failed(None, error, pipeline)

    return job


def request_job(
    request: int, pipeline: str, seq: int, payload: Ref | None, sources: Provenance
) -> Job:
    """Make an item."""

    def job(actor: InsideActor) -> None:
        assert actor.host is not None
        try:
            header, value = actor.host.request(pipeline, seq, payload, sources)
        except Exception as error:
            actor.failed(request, error)
        else:
            actor.say(_completed(actor, request, header, value))

    return job


def tell_job(method: str, payload: Ref, spread: bool, version: int | None) -> Job:
    """Handle a message."""

    def job(actor: InsideActor) -> None:
        assert actor.host is not None
        try:
            actor.host.tell(method, payload, spread, version)
        except Exception as error:
            actor.failed(None, error, method)

    return job


def call_job(request: int, method: str, payload: Ref) -> Job:
    """Answer a question."""

    def job(actor: InsideActor) -> None:
        assert actor.host is not None
        try:
            value = actor.host.call(method, payload)
        except Exception as error:
            actor.failed(request, error, method)
        else:
            actor.say(_completed(actor, request, Header(), value))

    return job


def _completed(actor: InsideActor, request: int, header: Header, value: Any) -> Completed:
    return Completed(actor.spec.name, actor.spec.incarnation, request, header, ValueRef(value))
