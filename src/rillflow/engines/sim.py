"""One thread, seeded, virtual time: the debugger, the determinism mode, the cluster simulator.

Actors are plain objects in the driver. Each works on one thing at a time, in the order it was
asked. What happens at the same virtual time is ordered by the seed; nothing else is random.
"""

from __future__ import annotations

import random
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rillflow.engines.contract import ActorSpec, Completed, Engine, Event, Failed, Lost
from rillflow.engines.host import ActorHost, OperatorFailed
from rillflow.engines.serial import PackedRef, ValueRef
from rillflow.engines.sim_faults import Fail, Fault, Hang, InjectedFailure, Kill
from rillflow.engines.sim_latency import Latency, LatencyModel
from rillflow.engines.sim_time import Cores, Timeline
from rillflow.errors import UserFailure, describe_exception
from rillflow.types import Header, Provenance, Ref

Job = Callable[["SimActor"], None]


class Asked(NamedTuple):
    """A request as it waits in an actor's inbox."""

    request: int
    pipeline: str
    seq: int
    payload: Ref | None
    provenance: Provenance


class SimActor:
    """One incarnation of an actor in virtual time."""

    def __init__(self, spec: ActorSpec) -> None:
        self.spec = spec
        self.host: Any = None
        self.inbox: deque[Job] = deque()
        self.on_the_way: deque[Job] = deque()
        """sent but not arrived; what was sent first arrives first, also at one instant"""
        self.answers: deque[Event] = deque()
        self.working = False
        self.alive = True
        self.operators: dict[str, tuple[str, ...]] = {}


class Sim(Engine):
    """The simulation engine.

    latency   None: everything is immediate; seconds, or a function of a random generator; a mapping
              from actor or operator names to these; or "measured": what each call really took.
              A number is waiting; write `Cpu(seconds)` for work that needs one of the cores
    cores     processors shared by the actors and the driver; None: as many as needed
    faults    what goes wrong, and when
    transport seconds a request or an answer is on its way
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
        self.faults = list(faults)
        self.recorded: list[tuple[str, float]] = []
        """what was measured, in order: give it to `replay` for the same virtual times again"""
        self.spent: dict[str, float] = {}
        """virtual seconds the driver worked, by operator"""
        self._replay: deque[float] = deque()
        self._time = Timeline(self.cores)
        self._actors: dict[str, SimActor] = {}
        self._counts: dict[str, int] = {}
        self._ready: list[Event] = []
        self._model = LatencyModel(None, random.Random(0))
        self._globals: list[Callable[[], None]] = []

    def replay(self, recorded: Sequence[tuple[str, float]]) -> Sim:
        """Use the durations of an earlier measured run instead of measuring again."""
        self._replay = deque(seconds for _, seconds in recorded)
        return self

    def open(self, seed: int) -> None:
        self._time.rng = random.Random(seed)
        self._model = LatencyModel(self.latency, random.Random(seed + 1))
        self._globals = _seed_global_generators(seed)
        for fault in self.faults:
            if isinstance(fault, Kill) and fault.at is not None:
                self._time.at(fault.at, lambda f=fault: self._strike(f))  # type: ignore[misc]

    def cut(self, seed: int, clock: float) -> None:
        self._time.clock = max(self._time.clock, clock)
        self._time.rng.seed(seed)
        self._model.rng.seed(seed + 1)
        _seed_global_generators(seed)

    # -- the contract --------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> None:
        actor = self._actors[spec.name] = SimActor(spec)
        self._post(actor, self._construct)

    def install(self, actor: str, pipeline: str, code: bytes) -> None:
        def job(it: SimActor) -> None:
            it.host.install(pipeline, code)
            names = tuple(name for name, _ in it.host.pipelines[pipeline].steps)
            it.operators[pipeline] = (it.spec.handle.group.name, *names)
            self._next_job(it)

        self._post(self._actors[actor], job)

    def request(
        self, actor: str, request: int, pipeline: str, seq: int,
        payload: Ref | None = None, provenance: Provenance = (),
    ) -> None:  # fmt: skip
        asked = Asked(request, pipeline, seq, payload, provenance)
        self._arrive(self._actors[actor], lambda it: self._work(it, asked))

    def tell(
        self, actor: str, method: str, payload: Ref, spread: bool, version: int | None
    ) -> None:
        def job(it: SimActor) -> None:
            try:
                it.host.tell(method, payload, spread, version)
            except Exception as error:
                self._ready.append(self._failed(it, None, describe_exception(error, method)))
            self._next_job(it)

        self._arrive(self._actors[actor], job)

    def call(self, actor: str, request: int, method: str, payload: Ref) -> None:
        def job(it: SimActor) -> None:
            try:
                value = ValueRef(it.host.call(method, payload))
                answer: Event = Completed(actor, it.spec.incarnation, request, Header(), value)
            except Exception as error:
                answer = self._failed(it, request, describe_exception(error, method))
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
        return self._time.clock

    @property
    def clock(self) -> float:
        """Virtual seconds since the beginning."""
        return self._time.clock

    def wait(self, timeout: float | None) -> list[Event]:
        until = None if timeout is None else self._time.clock + timeout
        while not self._ready:
            if not self._advance(until):
                if until is not None:
                    self._time.clock = max(self._time.clock, until)
                break
        events, self._ready = self._ready, []
        return events

    def spend(self, operator: str, wall: float, cpu: float, parts: int = 1) -> float:
        if self._model.measured:
            cpu = self._measured(f"driver:{operator}", min(cpu, wall))
            wait = self._measured(f"driver:{operator}:wait", max(0.0, wall - cpu))
        else:
            cpu, wait = self._model.of_driver(operator), 0.0
        return self._occupy(operator, cpu, wait)

    def close(self) -> None:
        for actor in self._actors.values():
            if actor.alive and actor.host is not None:
                actor.host.close()
            actor.alive = False
        self._time.clear()
        for restore in self._globals:
            restore()
        self._globals = []

    # -- time passes ---------------------------------------------------------------------------

    def _advance(self, until: float | None) -> bool:
        """Let the next thing happen; False: nothing does before `until`."""
        return self._time.step(until)

    def _occupy(self, operator: str, cpu: float, wait: float) -> float:
        """The driver works for an operator, and the rest goes on meanwhile; seconds it took."""
        if not cpu and not wait:
            return 0.0
        seconds = self._time.occupy(cpu, wait)
        self.spent[operator] = self.spent.get(operator, 0.0) + seconds
        return seconds

    # -- actors at work ------------------------------------------------------------------------

    def _arrive(self, actor: SimActor, job: Job) -> None:
        if self.transport and actor.spec.placement == "process":
            actor.on_the_way.append(job)
            arrival = self._time.clock + self.transport
            self._time.at(arrival, lambda: self._post(actor, actor.on_the_way.popleft()))
        else:
            self._post(actor, job)

    def _post(self, actor: SimActor, job: Job) -> None:
        if not actor.alive:
            return
        actor.inbox.append(job)
        if not actor.working:
            actor.working = True
            self._time.at(self._time.clock, lambda: self._next_job(actor))

    def _next_job(self, actor: SimActor) -> None:
        if actor.alive and actor.inbox:
            actor.inbox.popleft()(actor)
        else:
            actor.working = False

    def _make_host(self, spec: ActorSpec) -> Any:
        """Bring an actor to life; a simulation may put a stand-in here."""
        return ActorHost(spec.info, spec.code, spec.handle)

    def _construct(self, actor: SimActor) -> None:
        spec = actor.spec
        try:
            actor.host = self._make_host(spec)
        except Exception as error:
            actor.alive = False
            actor.inbox.clear()
            reason = "its constructor raised"
            self._ready.append(Lost(spec.name, spec.incarnation, reason, describe_exception(error)))
            return
        self._next_job(actor)

    def _work(self, actor: SimActor, asked: Asked) -> None:
        """Really do the work now, and let the answer arrive when its virtual time has passed."""
        name = actor.spec.name
        count = self._counts[name] = self._counts.get(name, 0) + 1
        fault = self._fault(name, count) if self.faults else None
        answer, cpu, wait = self._perform(actor, asked, fault)
        if isinstance(fault, Kill):
            self._kill_during(actor, fault, answer, cpu)
        elif not isinstance(fault, Hang):
            self._finish_after(actor, answer, cpu, wait)

    def _perform(
        self, actor: SimActor, asked: Asked, fault: Fault | None
    ) -> tuple[Event, float, float]:
        """The answer to a request, the processor time it takes, and the waiting."""
        spec, measured = actor.spec, self._model.measured
        if measured:
            wall, cpu = time.perf_counter(), time.thread_time()
        answer: Event
        try:
            if isinstance(fault, Fail):
                raise InjectedFailure(fault.message)
            header, value = actor.host.request(*asked[1:])
            inside = spec.placement != "process"
            payload = ValueRef(value) if inside else PackedRef.of(value, by_value=False)
            answer = Completed(spec.name, spec.incarnation, asked.request, header, payload)
        except OperatorFailed as failed:
            failure = describe_exception(failed.error, failed.operator)
            answer = self._failed(actor, asked.request, failure)
        except Exception as error:
            answer = self._failed(actor, asked.request, describe_exception(error))
        if not measured:
            operators = actor.operators.get(asked.pipeline, ())
            return answer, *self._model.of_request(spec.name, operators)
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        cpu = self._measured(f"{spec.name}:cpu", min(cpu, wall))
        return answer, cpu, self._measured(f"{spec.name}:wait", max(0.0, wall - cpu))

    def _failed(self, actor: SimActor, request: int | None, failure: UserFailure) -> Failed:
        return Failed(actor.spec.name, actor.spec.incarnation, request, failure)

    def _measured(self, what: str, seconds: float) -> float:
        if self._replay:
            seconds = self._replay.popleft()
        self.recorded.append((what, seconds))
        return seconds

    def _finish_after(self, actor: SimActor, answer: Event, cpu: float, wait: float) -> None:
        began = self._time.clock

        def finished() -> None:
            if actor.alive:
                wall = self._time.clock - began if cpu else wait
                self._deliver(actor, with_times(answer, wall, cpu))
                self._next_job(actor)

        self._time.work(cpu, wait, finished)

    def _deliver(self, actor: SimActor, answer: Event) -> None:
        if self.transport and actor.spec.placement == "process":
            actor.answers.append(answer)
            arrival = self._time.clock + self.transport
            self._time.at(arrival, lambda: self._ready.append(actor.answers.popleft()))
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

    def _kill_during(self, actor: SimActor, fault: Kill, answer: Event, busy: float) -> None:
        def die() -> None:
            if actor.alive:
                self._strike(fault)
                if fault.late_result:
                    self._time.at(self._time.clock + 1.0, lambda: self._ready.append(answer))

        self._time.at(self._time.clock + busy / 2, die)


def with_times(answer: Event, wall: float, cpu: float) -> Event:
    """The answer with virtual durations in place of the real ones."""
    if not isinstance(answer, Completed):
        return answer
    actor, incarnation, request, h, payload = answer
    scale = wall / (sum(h.op_times) or 1.0)
    times = tuple([t * scale for t in h.op_times])
    header = h._replace(wall=wall, cpu=cpu, op_times=times)
    return Completed(actor, incarnation, request, header, payload)


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
