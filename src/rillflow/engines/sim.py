"""One thread, seeded, virtual time: the debugger, the determinism mode, the cluster simulator.

Actors are plain objects in the driver. Each works on one thing at a time, in the order it was
asked. What happens at the same virtual time is ordered by the seed; nothing else is random.
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from rillflow.engines.base import ActorSpec, Completed, Engine, Event, Failed, Lost
from rillflow.engines.cores import Cores
from rillflow.engines.faults import Fail, Fault, Hang, InjectedFailure, Kill
from rillflow.engines.host import ActorHost, OperatorFailed
from rillflow.engines.latency import Latency, LatencyModel
from rillflow.engines.serial import PackedRef, ValueRef
from rillflow.errors import UserFailure, describe_exception
from rillflow.types import Header, Provenance, Ref

Job = Callable[["_Actor"], None]


class _Actor:
    """One incarnation of an actor in virtual time."""

    def __init__(self, spec: ActorSpec) -> None:
        self.spec = spec
        self.host: ActorHost | None = None
        self.inbox: deque[Job] = deque()
        self.working = False
        self.alive = True
        self.operators: dict[str, tuple[str, ...]] = {}


class Sim(Engine):
    """The simulation engine.

    latency   None: everything is immediate; seconds, or a function of a random generator; a mapping
              from actor or operator names to these; or "measured": what each call really took
    cores     processors shared by the actors and the driver; None: as many as needed
    faults    what goes wrong, and when
    """

    name = "sim"
    counts_cpu = True

    def __init__(
        self, latency: Latency = None, *, cores: int | None = None, faults: Sequence[Fault] = (),
        transport: float = 0.0,
    ) -> None:  # fmt: skip
        self.latency = latency
        self.cores = Cores(cores)
        self.transport = transport
        """seconds a request or an answer is on its way"""
        self.faults = list(faults)
        self.clock = 0.0
        self.recorded: list[tuple[str, float]] = []
        """what was measured, in order: give it to `replay` for the same virtual times again"""
        self._replay: deque[float] = deque()
        self._actors: dict[str, _Actor] = {}
        self._counts: dict[str, int] = {}
        self._agenda: list[tuple[float, int, float, int, Callable[[], None]]] = []
        self._depth = 0
        self._ready: list[Event] = []
        self._ids = itertools.count()
        self._rng = random.Random(0)
        self._model = LatencyModel(None, self._rng)
        self._globals: list[Callable[[], None]] = []

    def replay(self, recorded: Sequence[tuple[str, float]]) -> Sim:
        """Use the durations of an earlier measured run instead of measuring again."""
        self._replay = deque(seconds for _, seconds in recorded)
        return self

    def open(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._model = LatencyModel(self.latency, random.Random(seed + 1))
        self._globals = _seed_global_generators(seed)
        for fault in self.faults:
            if isinstance(fault, Kill) and fault.at is not None:
                self._at(fault.at, lambda f=fault: self._strike(f))  # type: ignore[misc]

    def cut(self, seed: int, clock: float) -> None:
        self.clock = max(self.clock, clock)
        self._rng.seed(seed)
        self._model.rng.seed(seed + 1)
        _seed_global_generators(seed)

    # -- the contract --------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> None:
        actor = self._actors[spec.name] = _Actor(spec)
        self._post(actor, self._construct)

    def install(self, actor: str, pipeline: str, code: bytes) -> None:
        def job(it: _Actor) -> None:
            assert it.host is not None
            it.host.install(pipeline, code)
            names = tuple(name for name, _ in it.host.pipelines[pipeline].steps)
            it.operators[pipeline] = (it.spec.handle.group.name, *names)
            self._next_job(it)

        self._post(self._actors[actor], job)

    def request(
        self, actor: str, request: int, pipeline: str, seq: int,
        payload: Ref | None = None, provenance: Provenance = (),
    ) -> None:  # fmt: skip
        def job(it: _Actor) -> None:
            self._work(it, request, pipeline, lambda host: host.request(pipeline, seq, payload, provenance))

        self._arrive(self._actors[actor], job)

    def tell(self, actor: str, method: str, payload: Ref, spread: bool, version: int | None) -> None:
        def job(it: _Actor) -> None:
            assert it.host is not None
            try:
                it.host.tell(method, payload, spread, version)
            except Exception as error:
                self._ready.append(Failed(actor, it.spec.incarnation, None, describe_exception(error, method)))
            self._next_job(it)

        self._arrive(self._actors[actor], job)

    def call(self, actor: str, request: int, method: str, payload: Ref) -> None:
        def job(it: _Actor) -> None:
            assert it.host is not None
            try:
                answer: Event = Completed(
                    actor, it.spec.incarnation, request, Header(), ValueRef(it.host.call(method, payload))
                )
            except Exception as error:
                answer = Failed(actor, it.spec.incarnation, request, describe_exception(error, method))
            self._ready.append(answer)
            self._next_job(it)

        self._arrive(self._actors[actor], job)

    def put(self, value: Any) -> Ref:
        return PackedRef.of(value)

    def kill(self, actor: str) -> None:
        it = self._actors.get(actor)
        if it is not None and it.alive:
            it.alive = False
            it.inbox.clear()

    def now(self) -> float:
        return self.clock

    def wait(self, timeout: float | None) -> list[Event]:
        until = None if timeout is None else self.clock + timeout
        while not self._ready:
            if not self._step(until):
                if until is not None:
                    self.clock = max(self.clock, until)
                break
        events, self._ready = self._ready, []
        return events

    def spend(self, operator: str, wall: float, cpu: float) -> None:
        if self._model.measured:
            self._occupy_driver(self._measured(f"driver:{operator}", cpu), 0.0)
        else:
            stated = self._model.of_driver(operator)
            if stated:
                self._occupy_driver(stated, 0.0)

    def close(self) -> None:
        for actor in self._actors.values():
            if actor.alive and actor.host is not None:
                actor.host.close()
            actor.alive = False
        self._agenda.clear()
        for restore in self._globals:
            restore()
        self._globals = []

    # -- virtual time --------------------------------------------------------------------------

    def _at(self, when: float, action: Callable[[], None]) -> None:
        # At one instant, what was caused first happens first; only what is level is shuffled. So
        # without latencies no actor can run far ahead of another.
        depth = self._depth + 1 if when <= self.clock else 0
        heapq.heappush(self._agenda, (when, depth, self._rng.random(), next(self._ids), action))

    def _step(self, until: float | None) -> bool:
        """Let the next thing happen; False: nothing does before `until`."""
        agenda = self._agenda[0][0] if self._agenda else None
        finish = self.cores.next_finish()
        times = [t for t in (agenda, finish) if t is not None]
        if not times or (until is not None and min(times) > until):
            return False
        if min(times) > self.clock:
            self.clock, self._depth = min(times), 0
        if finish is not None and (agenda is None or finish <= agenda):
            self.cores.finish_one(self.clock)
        else:
            _, self._depth, _, _, action = heapq.heappop(self._agenda)
            action()
        return True

    def _occupy_driver(self, cpu: float, pause: float) -> None:
        """The driver works: everything else goes on meanwhile."""
        finished: list[float] = []
        self.cores.add(self.clock, cpu, finished.append)
        while not finished:
            self._step(None)
        self.clock = max(self.clock, finished[0])

    # -- actors at work ------------------------------------------------------------------------

    def _arrive(self, actor: _Actor, job: Job) -> None:
        if self.transport and actor.spec.placement == "process":
            self._at(self.clock + self.transport, lambda: self._post(actor, job))
        else:
            self._post(actor, job)

    def _post(self, actor: _Actor, job: Job) -> None:
        if not actor.alive:
            return
        actor.inbox.append(job)
        if not actor.working:
            actor.working = True
            self._at(self.clock, lambda: self._next_job(actor))

    def _next_job(self, actor: _Actor) -> None:
        if actor.alive and actor.inbox:
            actor.inbox.popleft()(actor)
        else:
            actor.working = False

    def _construct(self, actor: _Actor) -> None:
        spec = actor.spec
        try:
            actor.host = ActorHost(
                spec.name, spec.index, spec.incarnation, spec.seed, spec.code, spec.handle
            )
        except Exception as error:
            actor.alive = False
            actor.inbox.clear()
            reason = "its constructor raised"
            self._ready.append(Lost(spec.name, spec.incarnation, reason, describe_exception(error)))
            return
        self._next_job(actor)

    def _work(
        self, actor: _Actor, request: int, pipeline: str, work: Callable[[ActorHost], tuple[Header, Any]]
    ) -> None:
        """Really do the work now, and let the answer arrive when its virtual time has passed."""
        assert actor.host is not None
        spec = actor.spec
        count = self._counts[spec.name] = self._counts.get(spec.name, 0) + 1
        fault = self._fault(spec.name, count)
        wall, cpu = time.perf_counter(), time.thread_time()
        answer: Event
        try:
            if isinstance(fault, Fail):
                raise InjectedFailure(fault.message)
            header, value = work(actor.host)
            inside = spec.placement != "process"
            payload = ValueRef(value) if inside else PackedRef.of(value, by_value=False)
            answer = Completed(spec.name, spec.incarnation, request, header, payload)
        except OperatorFailed as failed:
            answer = self._failed(actor, request, describe_exception(failed.error, failed.operator))
        except Exception as error:
            answer = self._failed(actor, request, describe_exception(error))
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        busy, pause = self._duration(spec.name, actor.operators.get(pipeline, ()), wall, cpu)
        if not self._model.measured and isinstance(answer, Completed):
            answer = _with_wall(answer, busy + pause)
        if isinstance(fault, Kill):
            self._kill_during(actor, fault, answer, busy)
        elif not isinstance(fault, Hang):
            self._finish_after(actor, answer, busy, pause)

    def _failed(self, actor: _Actor, request: int, failure: UserFailure) -> Failed:
        return Failed(actor.spec.name, actor.spec.incarnation, request, failure)

    def _duration(self, actor: str, operators: tuple[str, ...], wall: float, cpu: float) -> tuple[float, float]:
        """Seconds of processor time and seconds of waiting."""
        if not self._model.measured:
            return 0.0, self._model.of_request(actor, operators)
        cpu = self._measured(f"{actor}:cpu", min(cpu, wall))
        return cpu, self._measured(f"{actor}:wait", max(0.0, wall - cpu))

    def _measured(self, what: str, seconds: float) -> float:
        if self._replay:
            seconds = self._replay.popleft()
        self.recorded.append((what, seconds))
        return seconds

    def _finish_after(self, actor: _Actor, answer: Event, busy: float, pause: float) -> None:
        def finished() -> None:
            if actor.alive:
                self._deliver(actor, answer)
                self._next_job(actor)

        def after_pause() -> None:
            if busy:
                self.cores.add(self.clock, busy, lambda _: finished())
            else:
                finished()

        self._at(self.clock + pause, after_pause)

    def _deliver(self, actor: _Actor, answer: Event) -> None:
        if self.transport and actor.spec.placement == "process":
            self._at(self.clock + self.transport, lambda: self._ready.append(answer))
        else:
            self._ready.append(answer)

    # -- faults --------------------------------------------------------------------------------

    def _fault(self, actor: str, count: int) -> Fault | None:
        for fault in self.faults:
            if fault.actor == actor and fault.request == count:
                return fault
        return None

    def _strike(self, fault: Kill) -> None:
        actor = self._actors.get(fault.actor)
        if actor is not None and actor.alive:
            actor.alive = False
            actor.inbox.clear()
            self._ready.append(Lost(fault.actor, actor.spec.incarnation, "killed (injected fault)"))

    def _kill_during(self, actor: _Actor, fault: Kill, answer: Event, busy: float) -> None:
        def die() -> None:
            if actor.alive:
                self._strike(fault)
                if fault.late_result:
                    self._at(self.clock + 1.0, lambda: self._ready.append(answer))

        self._at(self.clock + busy / 2, die)


def _with_wall(answer: Completed, seconds: float) -> Completed:
    """The answer with its virtual duration in place of the real one."""
    h = answer.header
    real = sum(h.op_times) or 1.0
    header = Header(
        h.items, h.dropped, h.ended, h.not_ready, h.version, seconds, seconds,
        tuple(seconds * t / real for t in h.op_times), h.metrics,
    )  # fmt: skip
    return Completed(answer.actor, answer.incarnation, answer.request, header, answer.payload)


def _seed_global_generators(seed: int) -> list[Callable[[], None]]:
    """Seed the global generators that user code may draw from; returns how to undo it."""
    state = random.getstate()
    random.seed(seed)
    undo: list[Callable[[], None]] = [lambda: random.setstate(state)]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy_state = numpy.random.get_state()
        numpy.random.seed(seed % 2**32)
        undo.append(lambda: numpy.random.set_state(numpy_state))
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch_state = torch.get_rng_state()
        torch.manual_seed(seed)
        undo.append(lambda: torch.set_rng_state(torch_state))
    return undo
