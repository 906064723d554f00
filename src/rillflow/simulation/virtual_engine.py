"""The engine of a prediction: virtual actors that give recorded answers, after recorded times.

The actors themselves are not created, so their work costs nothing here. The driver's operators are
really run, because they decide what happens: what is sent to whom, what is dropped, what comes
next; only costly ones are replayed. Their virtual cost is the recorded one, larger where their
items are larger.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import Any

from rillflow.engines.contract import ActorSpec, Completed, Event, Order
from rillflow.engines.replies import Reply
from rillflow.engines.sim import Job, Sim, SimActor, with_times
from rillflow.engines.sim_faults import Fault
from rillflow.engines.sim_latency import Latency
from rillflow.errors import RunError
from rillflow.graph.handles import ActorHandle
from rillflow.simulation.calibration import Answer, Calibration
from rillflow.simulation.recording_engine import Enough, group_of, names_in
from rillflow.types import Header, Ref

MESSAGES = "(messages)"
"""the driver's own work: sending, receiving, scheduling"""


_ONE = ((0,),)
"""one item, made by this request: the usual answer"""


class Bounded(Sim):
    """A simulation that ends itself after so many answers, or so much virtual time."""

    def __init__(
        self, latency: Latency = None, *, cores: int | None = None, transport: float = 0.0,
        answers: int | None = None, seconds: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(latency, cores=cores, transport=transport)
        self.most = answers
        self.seconds = seconds
        self.answers = 0

    @property
    def progress(self) -> float:
        """How much of what was asked for is done; 1 is all."""
        by_answers = self.answers / self.most if self.most else 0.0
        return max(by_answers, self.clock / self.seconds if self.seconds else 0.0)

    def wait(self, timeout: float | None) -> list[Event]:
        if self.progress >= 1.0:
            raise Enough
        events = super().wait(timeout)
        self.answers += sum(isinstance(event, Completed) for event in events)
        return events


class _Here(Ref):
    """A recorded `(actor, item)` pair, as if this actor had made it."""

    __slots__ = ("handle", "pair")

    def __init__(self, pair: Ref, handle: ActorHandle) -> None:
        self.pair = pair
        self.handle = handle

    def get(self) -> Any:
        value = self.pair.get()
        return [self._own(v) for v in value] if isinstance(value, list) else self._own(value)

    def _own(self, value: Any) -> Any:
        if isinstance(value, tuple) and value and isinstance(value[0], ActorHandle):
            return (self.handle, *value[1:])
        return value


class VirtualActor:
    """A virtual actor: for each of its pipelines, recorded answers in random order."""

    def __init__(self, spec: ActorSpec, calibration: Calibration, rng: random.Random) -> None:
        self.handle = spec.handle
        self.group = group_of(spec)
        self.handled = 0
        """messages so far"""
        self.report_due = 0
        self.interrupted = False
        self.calibration = calibration
        self.rng = rng
        self.answers_left: dict[str, Iterator[tuple[Answer, list[int]]]] = {}

    def start(self, code: bytes) -> Reply:
        """Nothing is constructed."""
        return ("started",), None

    def told(self, count: int) -> None:
        """Messages are handled, whatever they say."""
        self.handled += count
        self.report_due = 1

    def acknowledge(self) -> Reply:
        """Say so."""
        self.report_due = 0
        return ("told", self.handled, ()), None

    def install(self, pipeline: str, method: str, names: tuple[str, ...]) -> None:
        """Learn a pipeline: find what was recorded of it."""
        self.answers_left[pipeline] = self._recorded((self.group, method, names))

    def _recorded(self, key: Any) -> Iterator[tuple[Answer, list[int]]]:
        segments = self.calibration.pipelines.get(key)
        if segments is None:
            raise RunError(
                f"simulate: no answer of {self.handle.group.name!r} ({key[1]}) was seen while the "
                "flow was measured. Let it run longer with measure_seconds=, or state latencies."
            )
        while True:
            asked: list[int] = []
            for answer in self.rng.choice(segments):
                yield answer, asked

    def answer(self, pipeline: str, seq: int) -> tuple[Answer, Header]:
        """The next recorded answer, with the numbers of this actor's own requests."""
        answer, asked = next(self.answers_left[pipeline])
        asked.append(seq)
        header = answer.header
        if header.items != _ONE or header.dropped:
            header = header._replace(
                items=tuple(tuple(asked[-1 - ago] for ago in item) for item in header.items),
                dropped=tuple((asked[-1 - ago], name) for ago, name in header.dropped),
                kept=tuple(asked[-1 - ago] for ago in header.kept),
                handled=self.handled,
            )
        else:
            header = header._replace(items=((seq,),), handled=self.handled)
        self.report_due = 0
        return answer, header

    def close(self) -> None:
        """Nothing is held."""


class VirtualEngine(Bounded):
    """A simulation from a calibration; nothing of the actors is executed."""

    def __init__(self, calibration: Calibration, **options: Any) -> None:
        super().__init__(**options)
        self.calibration = calibration
        self._codes: dict[bytes, tuple[str, tuple[str, ...]]] = {}
        self.stated: dict[str, float] = {}
        """by group: seconds of waiting in the answers as recorded"""
        self.waited: dict[str, float] = {}
        """by group: the same and what was spent waiting for a core"""
        self._inline: deque[tuple[SimActor, Event, float, float]] = deque()
        self._owed = 0.0
        """processor time of the driver for messages that it has not been charged with yet"""
        self._told: dict[str, int] = {}
        """by actor: messages that it has handled since its last request"""

    def make_host(self, spec: ActorSpec) -> VirtualActor:
        return VirtualActor(spec, self.calibration, self._model.rng)

    # -- the driver pays for every message -----------------------------------------------------

    def arrive(self, actor: SimActor, job: Job) -> None:
        kind = job[0][0]
        if kind == "tell":
            # messages are handled with the request they come before, as they leave with it
            if actor.spec.placement != "driver":
                self._owed += self.calibration.per_message
            actor.inbox.append(job) if actor.inbox else self._post(actor, job)
            return
        if kind == "request":
            self._pay(actor)
        super().arrive(actor, job)

    def do_now(self, actor: SimActor, order: Order, payload: Ref | None) -> None:
        if order[0] == "install":
            code = order[2]
            if code not in self._codes:
                self._codes[code] = names_in(code)
            actor.host.install(order[1], *self._codes[code])
        elif order[0] == "tell":
            self._told[actor.spec.name] = self._told.get(actor.spec.name, 0) + 1
            actor.host.told(1)
            self._acknowledge(actor)
        else:
            super().do_now(actor, order, payload)

    def wait(self, timeout: float | None) -> list[Event]:
        self._settle()
        events = super().wait(timeout)
        for event in events:
            if isinstance(event, Completed):
                self._pay_for(event.actor)
        return events

    def spend(self, operator: str, wall: float, cpu: float, parts: int = 1) -> float:
        calls = self.calibration.operators.get(operator)
        if calls is None or not parts:  # such a call was not measured; then this is all we know
            return self._occupy(operator, min(cpu, wall), max(0.0, wall - cpu))
        call = self._model.rng.choice(calls)
        growth = self.calibration.growth.get(operator)
        if growth is None or parts == call.parts:
            return self._occupy(operator, call.cpu, call.wait)
        # chance evens out within a larger item: it is like several of those that were measured
        drawn = [call, *(self._model.rng.choice(calls) for _ in range(parts // call.parts - 1))]
        longer = [growth.ratio(parts, one.parts) / len(drawn) for one in drawn]
        cpu = sum(one.cpu * share for one, share in zip(drawn, longer, strict=True))
        wait = sum(one.wait * share for one, share in zip(drawn, longer, strict=True))
        return self._occupy(operator, cpu, wait)

    def _pay_for(self, name: str) -> None:
        for actor in self._actors:
            if actor.spec.name == name:
                self._pay(actor)

    def _pay(self, actor: SimActor) -> None:
        if actor.spec.placement != "driver":
            self._owed += self.calibration.per_message
        self._settle()

    def _settle(self) -> None:
        """Pay for what was sent; messages without a request are paid for together."""
        owed, self._owed = self._owed, 0.0
        self._occupy(MESSAGES, owed, 0.0)

    # -- actors --------------------------------------------------------------------------------

    def _at_actor(self, actor: SimActor) -> float:
        return self.calibration.at_actor.get(actor.host.group, 0.0)

    def perform(
        self, actor: SimActor, order: Order, payload: Ref | None, fault: Fault | None
    ) -> tuple[Event, float, float]:
        _, request, pipeline, seq, _ = order
        spec = actor.spec
        told = self._told.pop(spec.name, 0)
        answer, header = actor.host.answer(pipeline, seq)
        item = None if answer.payload is None else _Here(answer.payload, spec.handle)
        event = Completed(spec.name, spec.incarnation, request, header, item)
        group = actor.host.group
        self.stated[group] = self.stated.get(group, 0.0) + answer.wait
        return event, answer.cpu + (1 + told) * self._at_actor(actor), answer.wait

    def deliver(self, actor: SimActor, answer: Event) -> None:
        if isinstance(answer, Completed):
            group, header = actor.host.group, answer.header
            self.waited[group] = self.waited.get(group, 0.0) + header.wall - header.cpu
        super().deliver(actor, answer)

    def finish_after(self, actor: SimActor, answer: Event, cpu: float, wait: float) -> None:
        if actor.spec.placement == "driver":
            self._inline.append((actor, answer, cpu, wait))
        else:
            super().finish_after(actor, answer, cpu, wait)

    def _advance(self, until: float | None) -> bool:
        if not self._inline:
            return super()._advance(until)
        # an actor that lives in the driver works when the driver has nothing else to do
        actor, answer, cpu, wait = self._inline.popleft()
        seconds = self._occupy(actor.spec.name, cpu, wait)
        self.deliver(actor, with_times(answer, seconds, cpu))
        self._next_job(actor)
        return True
