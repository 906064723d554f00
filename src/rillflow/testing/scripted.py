"""An engine without actors: it writes down what the scheduler does, and a test feeds the events.

    engine = ScriptedEngine()
    with flow.run(engine) as run:
        engine.complete("worker-0", 7)
        assert next(run) == 7
        assert engine.drain("request") == [("request", "worker-0", 0)]

Actions are plain tuples:

    ("start", actor, incarnation)              ("install", actor, pipeline)
    ("request", actor, seq[, item])            ("tell", actor, method, arguments, version)
    ("call", actor, method, argument)          ("kill", actor)        ("close",)

An answer says that all messages sent before its request are handled; `told` says it without one.

What is fed waits until the scheduler waits. Then all of it arrives at once, up to the first event
that answers a request which has not been made yet. A scheduler that waits for something that is
not in the script fails the test instead of hanging it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rillflow.engines.contract import (
    ActorSpec,
    Completed,
    Engine,
    Event,
    Lost,
    Order,
    Port,
    Started,
    Told,
)
from rillflow.engines.packing import ValueRef
from rillflow.errors import describe_exception
from rillflow.types import Header, Ref

Action = tuple[Any, ...]


@dataclass(frozen=True)
class _Asked:
    """A request or a call that was made."""

    id: int
    actor: str
    incarnation: int
    seq: int
    handled: int
    """messages sent to the actor before it"""


class _Port(Port):
    """Writes down what is sent to one actor."""

    def __init__(self, engine: ScriptedEngine, spec: ActorSpec) -> None:
        self.engine = engine
        self.actor = spec.name

    def send(self, order: Order, payload: Ref | None = None) -> None:
        self.engine.ordered(self.actor, order, payload)

    def pack(self, value: Any) -> Ref:
        return ValueRef(value)

    def kill(self) -> None:
        self.engine.actions.append(("kill", self.actor))
        self.engine._open[self.actor].clear()


class ScriptedEngine(Engine):
    """Records what it is asked to do and reports what a test tells it to report."""

    name = "scripted"

    def __init__(self) -> None:
        self.actions: list[Action] = []
        """everything the scheduler did, in order"""
        self.clock = 0.0
        """the time; a test may set it, or let it pass in the script with `advance`"""
        self._drained = 0
        self._script: deque[Callable[[], Event | None] | float] = deque()
        """events to come (None: not yet), and seconds that pass"""
        self._incarnations: dict[str, int] = {}
        self._told: dict[str, int] = {}
        """messages sent to each actor"""
        self._open: dict[str, deque[_Asked]] = {}
        self._started: list[Event] = []
        self._asked: dict[tuple[str, int, int], _Asked] = {}

    # -- what a test feeds ---------------------------------------------------------------------

    def complete(
        self,
        actor: str,
        value: Any = None,
        *,
        seq: int | None = None,
        incarnation: int | None = None,
        items: Sequence[Sequence[int]] | None = None,
        dropped: Sequence[tuple[int, str]] = (),
        ended: bool = False,
    ) -> None:
        """A request of `actor` is answered with `value`: the oldest, or the one numbered `seq`.

        With `items` the answer holds several items (`value` is their list), each made from these
        sequence numbers; `items=()` means that an operator in the actor kept or dropped it.
        """

        def event(asked: _Asked) -> Event:
            parts = ((asked.seq,),) if items is None else tuple(tuple(seqs) for seqs in items)
            header = Header(parts, tuple(dropped), ended=ended, handled=asked.handled)
            return Completed(actor, asked.incarnation, asked.id, header, ValueRef(value))

        self._feed(actor, seq, incarnation, event)

    def end(self, actor: str) -> None:
        """The shard behind the oldest request of `actor` has no more items."""
        self.complete(actor, [], items=(), ended=True)

    def not_ready(self, actor: str) -> None:
        """The oldest request of `actor` is answered: not before my next message."""

        def event(asked: _Asked) -> Event:
            header = Header(not_ready=True, handled=asked.handled)
            return Completed(actor, asked.incarnation, asked.id, header, None)

        self._feed(actor, None, None, event)

    def fail(
        self, actor: str, error: Exception | None = None, *, seq: int | None = None,
        operator: str = "", message: bool = False,
    ) -> None:  # fmt: skip
        """User code raised in the oldest request of `actor`, or in the handler of a message."""
        failure = describe_exception(error or ValueError("scripted failure"), operator)
        if message:
            self._script.append(
                lambda: Told(actor, self._incarnations[actor], self._told[actor], (failure,))
            )
            return

        def event(asked: _Asked) -> Event:
            dropped = ((asked.seq, ""),)
            header = Header(dropped=dropped, handled=asked.handled, failure=failure)
            return Completed(actor, asked.incarnation, asked.id, header, None)

        self._feed(actor, seq, None, event)

    def told(self, actor: str, handled: int | None = None) -> None:
        """The actor has handled so many messages; by default all that were sent to it."""

        def event() -> Event:
            count = self._told[actor] if handled is None else handled
            return Told(actor, self._incarnations[actor], count)

        self._script.append(event)

    def lose(
        self, actor: str, reason: str = "scripted loss", *, error: Exception | None = None
    ) -> None:
        """The process of `actor` is gone; with `error`, because its constructor raised it."""
        failure = None if error is None else describe_exception(error)
        self._script.append(lambda: Lost(actor, self._incarnations[actor], reason, failure))

    def advance(self, seconds: float) -> None:
        """Time passes when the script comes to this; what is fed afterwards arrives later."""
        self._script.append(float(seconds))

    def _feed(
        self, actor: str, seq: int | None, incarnation: int | None, event: Callable[[_Asked], Event]
    ) -> None:
        def when_asked() -> Event | None:
            if seq is None:
                waiting = self._open.get(actor)
                return event(waiting.popleft()) if waiting else None
            life = self._incarnations.get(actor, 0) if incarnation is None else incarnation
            asked = self._asked.get((actor, life, seq))
            if asked is None:
                return None
            if asked in self._open[actor]:
                self._open[actor].remove(asked)
            return event(asked)

        self._script.append(when_asked)

    # -- what a test reads ---------------------------------------------------------------------

    def drain(self, *kinds: str) -> list[Action]:
        """The actions since the last call; only of these kinds, if some are given."""
        new = self.actions[self._drained :]
        self._drained = len(self.actions)
        return [action for action in new if not kinds or action[0] in kinds]

    def open_requests(self, actor: str) -> list[int]:
        """Sequence numbers of the requests of `actor` that are not answered yet, oldest first."""
        return [asked.seq for asked in self._open.get(actor, ())]

    # -- the contract --------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> Port:
        self.actions.append(("start", spec.name, spec.incarnation))
        self._incarnations[spec.name] = spec.incarnation
        self._told[spec.name] = 0
        self._open[spec.name] = deque()
        self._started.append(Started(spec.name, spec.incarnation))
        return _Port(self, spec)

    def ordered(self, actor: str, order: Order, payload: Ref | None) -> None:
        """Write an order down."""
        kind, *fields = order
        if kind == "install":
            self.actions.append(("install", actor, fields[0]))
        elif kind == "request":
            number, _, seq, _ = fields
            item = () if payload is None else (payload.get(),)
            self.actions.append(("request", actor, seq, *item))
            self._ask(actor, number, seq)
        elif kind == "tell":
            assert payload is not None
            method, spread, _, version = fields
            value = payload.get()
            arguments = tuple(value) if spread else (value,)
            self.actions.append(("tell", actor, method, arguments, version))
            self._told[actor] += 1
        else:
            assert payload is not None
            number, method = fields
            self.actions.append(("call", actor, method, payload.get()))
            self._ask(actor, number, -1)

    def _ask(self, actor: str, request: int, seq: int) -> None:
        life = self._incarnations[actor]
        asked = _Asked(request, actor, life, seq, self._told[actor])
        self._asked[actor, life, seq] = asked
        self._open[actor].append(asked)

    def put(self, value: Any) -> Ref:
        return ValueRef(value)

    def wait(self, timeout: float | None) -> list[Event]:
        events, self._started = self._started, []
        if events:  # constructors take no time
            return events
        moved = False
        while self._script:
            entry = self._script[0]
            if isinstance(entry, float):  # time passes after what came before was taken in
                if not moved:
                    moved = True
                    self.clock += self._script.popleft()  # type: ignore[operator]
                break
            event = entry()
            if event is None:
                break
            moved = True
            self._script.popleft()
            events.append(event)
        if not moved and timeout != 0.0:
            answer = " that answers a request which was made" if self._script else ""
            waiting = {actor: self.open_requests(actor) for actor in self._open}
            raise AssertionError(
                f"the flow waits for events; the script has none{answer}. Open: {waiting}"
            )
        return events

    def now(self) -> float:
        return self.clock

    def close(self) -> None:
        self.actions.append(("close",))
