"""One thread, seeded, virtual time: the debugger, the determinism mode, the cluster simulator.

Actors are objects of the driver's process. Each works on one thing at a time, in the order it was
asked. What happens at the same virtual time is ordered by the seed; nothing else is random.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from rillflow.engines.contract import ActorSpec, Completed, Engine, Event, Lost, Order, Port
from rillflow.engines.host import Host
from rillflow.engines.packing import PackedRef, hand_over
from rillflow.engines.replies import Reply, event_of, spoiled
from rillflow.engines.sim_cores import Cores
from rillflow.engines.sim_faults import Fail, Fault, Hang, InjectedFailure, Kill
from rillflow.engines.sim_generators import Generators
from rillflow.engines.sim_latency import Latency, LatencyModel
from rillflow.engines.sim_time import Timeline
from rillflow.types import Header, Ref

Job = tuple[Order, Ref | None]


class SimActor(Port):
    """One incarnation of an actor in virtual time."""

    def __init__(self, engine: Sim, spec: ActorSpec) -> None:
        self.engine = engine
        self.spec = spec
        self.host: Any = engine.make_host(spec)
        self.inbox: deque[Job] = deque()
        self.on_the_way: deque[Job] = deque()
        """orders that have not arrived; what was sent first arrives first, also at one instant"""
        self.answers: deque[Event] = deque()
        self.working = False
        self.alive = True
        self.operators: dict[str, tuple[str, ...]] = {}
        """by pipeline: the group's name and the names of its transforms, for latencies"""
        self.outside = spec.placement == "process"

    def send(self, order: Order, payload: Ref | None = None) -> None:
        if self.alive:
            self.engine.arrive(self, (order, payload))

    def pack(self, value: Any) -> Ref:
        return PackedRef.of(value)

    def kill(self) -> None:
        self.alive = False
        self.inbox.clear()
        self.on_the_way.clear()

    def retire(self) -> None:
        self.host.close()
        self.kill()

    def answer(self, value: Any) -> Ref:
        """A result on its way out of the actor."""
        if self.outside:
            return PackedRef.of(value, by_value=False)
        return hand_over(value)


class Sim(Engine):
    """The simulation engine: one thread, virtual time, the same run for the same seed.

    Args:
        latency: None: everything is immediate; seconds, or a function of a random generator; a
            mapping from actor or operator names to these; or "measured": what each call really
            took. A number is waiting; write `Cpu(seconds)` for work that needs one of the cores.
        cores: processors shared by the actors and the driver; None: as many as needed.
        faults: what goes wrong, and when.
        transport: seconds a request or an answer is on its way.
    """

    name = "sim"
    actors_in_driver = True
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
        self._actors: list[SimActor] = []
        self._counts: dict[str, int] = {}
        self._ready: list[Event] = []
        self._quiet: list[Event] = []
        """events that nobody waits for: they come along with the next one"""
        self._model = LatencyModel(None, random.Random(0))
        self._generators = Generators()

    def replay(self, recorded: Sequence[tuple[str, float]]) -> Sim:
        """Use the durations of an earlier measured run instead of measuring again."""
        self._replay = deque(seconds for _, seconds in recorded)
        return self

    def open(self, seed: int) -> None:
        self._time.rng = random.Random(seed)
        self._model = LatencyModel(self.latency, random.Random(seed + 1))
        self._generators.seed(seed)
        for fault in self.faults:
            if isinstance(fault, Kill) and fault.at is not None:
                self._time.at(fault.at, lambda f=fault: self._strike(f))  # type: ignore[misc]

    def enter(self) -> None:
        self._generators.enter()

    def leave(self) -> None:
        self._generators.leave()

    def cut(self, seed: int, clock: float) -> None:
        self._time.clock = max(self._time.clock, clock)
        self._time.rng.seed(seed)
        self._model.rng.seed(seed + 1)
        self._generators.seed(seed)

    # -- the contract --------------------------------------------------------------------------

    def make_host(self, spec: ActorSpec) -> Any:
        """What stands for an actor; a prediction may put a stand-in here."""
        return Host(spec.info, spec.handle, spec.mailbox)

    def start(self, spec: ActorSpec) -> Port:
        actor = SimActor(self, spec)
        self._actors = [a for a in self._actors if a.alive] + [actor]
        self._post(actor, (("start",), None))
        return actor

    def put(self, value: Any) -> Ref:
        return PackedRef.of(value)

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
        events = [*self._quiet, *self._ready]
        self._quiet, self._ready = [], []
        return events

    def spend(self, operator: str, wall: float, cpu: float, parts: int = 1) -> float:
        if self._model.measured:
            cpu = self._measured(f"driver:{operator}", min(cpu, wall))
            wait = self._measured(f"driver:{operator}:wait", max(0.0, wall - cpu))
        else:
            cpu, wait = self._model.of_driver(operator), 0.0
        return self._occupy(operator, cpu, wait)

    def close(self) -> None:
        actors, self._actors = self._actors, []
        for actor in actors:
            if actor.alive:
                actor.host.close()
                actor.kill()
        self._time.clear()
        self._ready.clear()
        self._quiet.clear()
        self._generators.give_back()

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

    def arrive(self, actor: SimActor, job: Job) -> None:
        """An order is on its way to an actor, for as long as that takes."""
        if self.transport and actor.outside and job[0][0] != "install":
            actor.on_the_way.append(job)
            arrival = self._time.clock + self.transport
            self._time.at(arrival, lambda: self._land(actor))
        else:
            self._post(actor, job)

    def _land(self, actor: SimActor) -> None:
        if actor.on_the_way:
            self._post(actor, actor.on_the_way.popleft())

    def _post(self, actor: SimActor, job: Job) -> None:
        if not actor.alive:
            return
        actor.inbox.append(job)
        if not actor.working:
            actor.working = True
            self._time.at(self._time.clock, lambda: self._next_job(actor))

    def _next_job(self, actor: SimActor) -> None:
        """Do what takes no time, up to the next request, which takes its time."""
        while actor.alive and actor.inbox:
            order, payload = actor.inbox.popleft()
            if order[0] == "request":
                self._work(actor, order, payload)
                self._pass_on_interrupt(actor)
                return
            self.do_now(actor, order, payload)
            if actor.host.interrupted:
                self._time.at(self._time.clock, lambda: self._next_job(actor))
                self._pass_on_interrupt(actor)
        actor.working = False

    def _pass_on_interrupt(self, actor: SimActor) -> None:
        """Ctrl-C is the user's: the request that it hit has failed, the rest of the run goes on."""
        if actor.host.interrupted:
            actor.host.interrupted = False
            raise KeyboardInterrupt

    def do_now(self, actor: SimActor, order: Order, payload: Ref | None) -> None:
        """Whatever takes no time: the constructor, messages, calls."""
        host = actor.host
        if order[0] == "start":
            reply = host.start(actor.spec.code)
            if reply[0][0] == "lost":
                actor.kill()
            else:
                self._quiet.append(event_of(actor.spec.name, actor.spec.incarnation, reply))
                return
        else:
            reply = host.handle(order, payload, actor.answer)
            if order[0] == "install":
                self._learn_names(actor, order[1])
        self._say(actor, reply)
        if host.report_due:
            self._acknowledge(actor)

    def _acknowledge(self, actor: SimActor) -> None:
        """Report handled messages: at once if somebody waits for it, else when there is time."""
        urgent = actor.host.report_due == 2
        if urgent or not actor.inbox:
            reply = actor.host.acknowledge()
            if reply is not None:
                event = event_of(actor.spec.name, actor.spec.incarnation, reply)
                (self._ready if urgent else self._quiet).append(event)

    def _learn_names(self, actor: SimActor, pipeline: str) -> None:
        line = actor.host.pipelines.get(pipeline)
        names = () if line is None else tuple(name for name, _ in line.steps)
        actor.operators[pipeline] = (actor.spec.handle.group.name, *names)

    def _say(self, actor: SimActor, reply: Reply | None) -> None:
        if reply is not None:
            self._ready.append(event_of(actor.spec.name, actor.spec.incarnation, reply))

    def _work(self, actor: SimActor, order: Order, payload: Ref | None) -> None:
        """Really do the work now, and let the answer arrive when its virtual time has passed."""
        name = actor.spec.name
        count = self._counts[name] = self._counts.get(name, 0) + 1
        fault = self._fault(name, count) if self.faults else None
        answer, cpu, wait = self.perform(actor, order, payload, fault)
        if isinstance(fault, Kill):
            self._kill_during(actor, fault, answer, cpu)
        elif not isinstance(fault, Hang):
            self.finish_after(actor, answer, cpu, wait)

    def perform(
        self, actor: SimActor, order: Order, payload: Ref | None, fault: Fault | None
    ) -> tuple[Event, float, float]:
        """The answer to a request, the processor time it takes, and the waiting."""
        spec, measured = actor.spec, self._model.measured
        if measured:
            wall, cpu = time.perf_counter(), time.thread_time()
        if isinstance(fault, Fail):
            reply = _injected(actor, order, fault)
        else:
            reply = actor.host.handle(order, payload, actor.answer)
        answer = event_of(spec.name, spec.incarnation, reply)
        if not measured:
            operators = actor.operators.get(order[2], ())
            return answer, *self._model.of_request(spec.name, operators)
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        cpu = self._measured(f"{spec.name}:cpu", min(cpu, wall))
        return answer, cpu, self._measured(f"{spec.name}:wait", max(0.0, wall - cpu))

    def _measured(self, what: str, seconds: float) -> float:
        if self._replay:
            seconds = self._replay.popleft()
        self.recorded.append((what, seconds))
        return seconds

    def finish_after(self, actor: SimActor, answer: Event, cpu: float, wait: float) -> None:
        """The answer leaves after so much waiting and work, and the actor turns to what is next."""
        began = self._time.clock

        def finished() -> None:
            if actor.alive:
                wall = self._time.clock - began if cpu else wait
                self.deliver(actor, with_times(answer, wall, cpu))
                self._next_job(actor)

        self._time.work(cpu, wait, finished)

    def deliver(self, actor: SimActor, answer: Event) -> None:
        """An answer is on its way to the driver."""
        if self.transport and actor.outside:
            actor.answers.append(answer)
            arrival = self._time.clock + self.transport
            self._time.at(arrival, lambda: self._ready.append(actor.answers.popleft()))
        else:
            self._ready.append(answer)
        if actor.host.report_due:  # a message before this request has failed
            self._acknowledge(actor)

    # -- faults --------------------------------------------------------------------------------

    def _fault(self, actor: str, count: int) -> Fault | None:
        for fault in self.faults:
            if fault.actor == actor and fault.request == count:
                return fault
        return None

    def _strike(self, fault: Kill) -> None:
        for actor in self._actors:
            if actor.spec.name == fault.actor and actor.alive:
                actor.kill()
                life = actor.spec.incarnation
                self._ready.append(Lost(fault.actor, life, "killed (injected fault)"))

    def _kill_during(self, actor: SimActor, fault: Kill, answer: Event, busy: float) -> None:
        def die() -> None:
            if actor.alive:
                self._strike(fault)
                if fault.late_result:
                    self._time.at(self._time.clock + 1.0, lambda: self._ready.append(answer))

        self._time.at(self._time.clock + busy / 2, die)


def _injected(actor: SimActor, order: Order, fault: Fail) -> Reply:
    """The answer to a request that raises before the actor sees it."""
    _, number, _, seq, _ = order
    empty = Header(items=((seq,),), handled=actor.host.handled)
    return spoiled((("done", number, tuple(empty)), None), InjectedFailure(fault.message))


def with_times(answer: Event, wall: float, cpu: float) -> Event:
    """The answer with virtual durations in place of the real ones."""
    if not isinstance(answer, Completed):
        return answer
    header = answer.header
    scale = wall / (sum(header.op_times) or 1.0)
    times = tuple([t * scale for t in header.op_times])
    return answer._replace(fields=tuple(header._replace(wall=wall, cpu=cpu, op_times=times)))
