"""A real engine under observation: everything is passed on, and what happens is written down."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import cloudpickle

from rillflow.engines.contract import ActorSpec, Completed, Engine, Event, Order, Port
from rillflow.simulation.cpu_meters import Meter, Window
from rillflow.types import Header, Ref

T = TypeVar("T")
Key = tuple[str, str, tuple[str, ...]]
"""what a pipeline is: the group's name, the source method, the names of its transforms"""
_KEPT = 16
"""payloads kept per pipeline and number of items: they may be large, and hold descriptors"""


class Enough(Exception):  # noqa: N818 - a signal: all that was wanted has been seen
    """Raised out of `wait` to end a run from inside."""


class Call(NamedTuple):
    """What one call of an operator of the driver took."""

    cpu: float
    wait: float
    parts: int
    """answers of actors that its item was made of: its size"""


class Seen(NamedTuple):
    """One answer, as the driver saw it."""

    key: Key
    actor: str
    pipeline: str
    seq: int
    header: Header
    payload: Ref | None
    on_the_way: float | None
    """seconds between sending the request and seeing the answer; None: something else was in the
    way as well, so that the time says nothing about the transport"""


class _Observed(Port):
    """A port under observation."""

    def __init__(self, recorder: Recorder, spec: ActorSpec, inner: Port) -> None:
        self.recorder = recorder
        self.actor = spec.name
        self.inner = inner

    def send(self, order: Order, payload: Ref | None = None) -> None:
        self.recorder.ordered(self.actor, order)
        self.inner.send(order, payload)

    def pack(self, value: Any) -> Ref:
        return self.inner.pack(value)

    def kill(self) -> None:
        self.inner.kill()

    def retire(self) -> None:
        self.inner.retire()


class Recorder(Engine):
    """Runs a flow on another engine for a while and keeps the answers and the times."""

    counts_cpu = True

    def __init__(self, inner: Engine, seconds: float, enough: int = 20_000, few: int = 8) -> None:
        self.inner = inner
        self.name = inner.name
        self.seconds = seconds
        self.enough = enough
        self.few = few
        self.seen: list[Seen] = []
        self.operators: dict[str, list[Call]] = {}
        """calls of each operator of the driver"""
        self.meters: dict[str, Meter] = {}
        self.specs: dict[str, ActorSpec] = {}
        self.messages = 0
        self.engine_cpu = 0.0
        """processor time of the driver inside the engine: sending and receiving"""
        self.came_out = False
        """whether the flow has given an item; said by whoever runs it"""
        self.before = 0
        """answers before the window opened"""
        self.window = Window()
        self._keys: dict[bytes, tuple[str, tuple[str, ...]]] = {}
        self._pipelines: dict[tuple[str, str], Key] = {}
        self._asked: dict[int, tuple[str, str, int, bool]] = {}
        self._sent: dict[int, float] = {}
        self._unsent: list[int] = []
        self._in_flight: dict[str, int] = {}
        self._silent: set[str] = set()
        self._heard: set[str] = set()
        self.gaps: dict[str, list[float]] = {}
        """by group of threads: seconds between two answers in which none of them worked, though it
        had something to do: it waited for the interpreter that it shares with the driver"""
        self._supplied: dict[str, float] = {}
        """when a thread had answered and had more to do"""
        self._first_heard = math.inf
        """when every actor that was asked had answered once"""
        self._counts: dict[Key, int] = {}
        self._payloads: dict[tuple[Key, int], deque[Ref | None]] = {}

    # -- passed on -----------------------------------------------------------------------------

    def open(self, seed: int) -> None:
        self.inner.open(seed)

    def start(self, spec: ActorSpec) -> Port:
        self.specs[spec.name] = spec
        self._in_flight[spec.name] = 0
        return _Observed(self, spec, self.inner.start(spec))

    def ordered(self, actor: str, order: Order) -> None:
        """Write down what is sent to an actor."""
        kind = order[0]
        if kind == "install":
            _, pipeline, code = order
            if code not in self._keys:
                self._keys[code] = names_in(code)
            method, names = self._keys[code]
            self._pipelines[actor, pipeline] = (group_of(self.specs[actor]), method, names)
        elif kind == "request":
            _, request, pipeline, seq, _ = order
            self._asked[request] = (actor, pipeline, seq, self._in_flight[actor] == 0)
            self._in_flight[actor] += 1
            self._unsent.append(request)
            if actor not in self._heard:
                self._silent.add(actor)
            self._count_message(actor)
        elif kind == "tell":
            self._count_message(actor)
            if actor in self.meters:
                self.meters[actor].told()

    def put(self, value: Any) -> Ref:
        return self.inner.put(value)

    def wake(self) -> None:
        self.inner.wake()

    def enter(self) -> None:
        self.inner.enter()

    def leave(self) -> None:
        self.inner.leave()

    @property
    def inline_seconds(self) -> float:  # type: ignore[override]
        return self.inner.inline_seconds

    def inline_busy(self) -> dict[str, float]:
        return self.inner.inline_busy()

    def now(self) -> float:
        return self.inner.now()

    def pids(self) -> dict[str, int]:
        return self.inner.pids()

    def close(self) -> None:
        self.inner.close()

    # -- observed ------------------------------------------------------------------------------

    def spend(self, operator: str, wall: float, cpu: float, parts: int = 1) -> float:
        if self.window.is_open and parts:
            cpu = min(cpu, wall)
            self.operators.setdefault(operator, []).append(Call(cpu, wall - cpu, parts))
        return wall

    def flush(self) -> None:
        self._in_engine(self.inner.flush)

    def wait(self, timeout: float | None) -> list[Event]:
        self._stop_if_done()
        if self.window.is_open:
            left = max(0.0, self.window.until - time.perf_counter())
            timeout = left if timeout is None else min(timeout, left)
        events, slept = self._in_engine(lambda: self.inner.wait(timeout))
        now = time.perf_counter()
        for event in events:
            if isinstance(event, Completed) and event.request in self._asked:
                self._answered(event, now, alone=slept > 1e-5 and len(events) == 1)
        return events

    def _in_engine(self, work: Callable[[], T]) -> tuple[T, float]:
        """Let the engine work; what it returns, and the seconds in which it slept."""
        wall, cpu, inline = time.perf_counter(), time.thread_time(), self.inline_seconds
        for request in self._unsent:
            self._sent[request] = wall
        self._unsent.clear()
        result = work()
        cpu = time.thread_time() - cpu
        inline = self.inline_seconds - inline  # actors that live in the driver have worked
        self.engine_cpu += max(0.0, cpu - inline)
        return result, time.perf_counter() - wall - max(cpu, inline)

    def _count_message(self, actor: str) -> None:
        if self.specs[actor].placement != "driver":  # to those that live here nothing is sent
            self.messages += 1

    def _answered(self, event: Completed, now: float, alone: bool) -> None:
        actor, pipeline, seq, first = self._asked.pop(event.request)
        self._in_flight[actor] -= 1
        self._heard.add(actor)
        self._silent.discard(actor)
        sent = self._sent.pop(event.request)
        self._count_message(actor)
        key = self._pipelines[actor, pipeline]
        self._counts[key] = self._counts.get(key, 0) + bool(event.header.items)
        on_the_way = now - sent if alone and first and self.window.is_open else None
        header = event.header
        payload = self._shared(event.payload, (key, len(header.items)))
        self.seen.append(Seen(key, actor, pipeline, seq, header, payload, on_the_way))
        if actor in self.meters:
            self.meters[actor].answered(header, now)
        if self.specs[actor].placement == "thread":
            self._thread_answered(actor, header, now)
        if not self.window.is_open and not self._silent:
            self._first_heard = min(self._first_heard, now)
            # operators, too, are slow the first time; but some flows give hardly anything
            if self.came_out or now >= self._first_heard + self.seconds:
                self._begin()

    def _thread_answered(self, actor: str, header: Header, now: float) -> None:
        before = self._supplied.pop(actor, None)
        if before is not None and self.window.is_open:
            gaps = self.gaps.setdefault(group_of(self.specs[actor]), [])
            gaps.append(now - before - header.wall)
        if self._in_flight[actor]:
            self._supplied[actor] = now

    def _shared(self, payload: Ref | None, like: tuple[Key, int]) -> Ref | None:
        """This payload, or one like it that was kept before."""
        known = self._payloads.setdefault(like, deque())
        if len(known) < _KEPT:
            known.append(payload)
            return payload
        known.rotate()
        return known[0]

    def _begin(self) -> None:
        """Constructors and imports are behind us."""
        self.messages, self.engine_cpu, self.before = 0, 0.0, len(self.seen)
        for actor, pid in self.inner.pids().items():
            self.meters[actor] = Meter(pid, group_of(self.specs[actor]))
        self.window.open(self.seconds)

    def _stop_if_done(self) -> None:
        if not self.window.is_open:
            return
        now = time.perf_counter()
        scarce = min(self._counts.values()) < self.few
        if len(self.seen) >= self.enough or now >= self.window.latest:
            raise Enough
        if now >= self.window.until:
            if not scarce:
                raise Enough
            self.window.until += self.seconds / 4  # slow work: go on for a few more samples

    def finish(self) -> None:
        """The run is over: read the clocks of the driver and the machine."""
        if self.window.is_open:
            self.window.close(sum(meter.cpu for meter in self.meters.values()))


def group_of(spec: ActorSpec) -> str:
    """The name of an actor's group, the same in every run of a plan."""
    return spec.name.rpartition("-")[0]


def names_in(code: bytes) -> tuple[str, tuple[str, ...]]:
    """The method and the names of the transforms in the code of a pipeline."""
    method, chain = cloudpickle.loads(code)
    return method, tuple(name for name, _ in chain)
