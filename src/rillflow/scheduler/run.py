"""A running flow: the one driver loop, and what a user can ask of it."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from rillflow.engines.contract import Completed, Engine, Event
from rillflow.engines.registry import make_engine
from rillflow.errors import BuildError, RunError, WorkerLost
from rillflow.graph.check import check
from rillflow.graph.handles import ActorHandle, Actors
from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.scheduler import ending, membership, report, snapshot
from rillflow.scheduler.actor import Actor, Answer
from rillflow.scheduler.envelope import Blocked, Envelope
from rillflow.scheduler.ledger import Ledger
from rillflow.scheduler.scheduler import Scheduler
from rillflow.scheduler.stats import RunStats
from rillflow.scheduler.times import DriverTimes
from rillflow.types import FailurePolicy, Reaction

T = TypeVar("T")
_LOOK_EVERY = 8
"""pulls between two looks at what has arrived, while there is something to pull anyway"""


class Run(Generic[T]):
    """One run of a flow. Iterate it for items; leave its `with` block, or call `stop`, to end it.

    Scheduling happens only inside `next()`: the body of the user's loop is part of the step that
    answers an item, and actors work on meanwhile.
    """

    def __init__(
        self,
        root: Node,
        engine: str | Engine,
        *,
        seed: int = 0,
        on_failure: FailurePolicy | Reaction | None = None,
        trace: bool = False,
    ) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise BuildError(f"a seed is a whole number; got {seed!r}.")
        self.program = Program(root)
        self.engine = make_engine(engine)
        check(self.program)
        self.trace: list[tuple[Any, ...]] = []
        self._scheduler = Scheduler(self.program, self.engine, seed, FailurePolicy.of(on_failure))
        if trace:
            self._scheduler.fleet.log_to(
                lambda *what: self.trace.append((self.engine.now(), *what))
            )
        self._seed = seed
        self._started = False
        self._stopped = False
        self._ended = False
        self._output: Envelope | None = None
        self._times = DriverTimes()
        self._answered = False
        self._pulls = 0
        self._restore: dict[str, Any] | None = None
        self._finalizer = weakref.finalize(self, self.engine.close)

    # -- iteration -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._ended or self._stopped:
            raise StopIteration
        if not self._started:
            self._start()
        engine, times = self.engine, self._times
        if self._output is not None:
            back = engine.now()
            times.back(back)
            self._output.release()
            self._output = None
            engine.flush()  # a worker that was asked again starts at once
            times.messages += engine.now() - back
        elif times.left is not None:  # a snapshot has let go of the item
            times.back(engine.now())
        scheduler, fleet = self._scheduler, self._scheduler.fleet
        errors = fleet.errors
        while True:
            self._pulls += 1
            if self._pulls % _LOOK_EVERY == 0:
                self._take_events(0.0)
            if errors:
                raise errors.popleft()
            looked, asking = engine.now(), fleet.seconds
            pulled = scheduler.pull()
            asking = fleet.seconds - asking
            times.messages += asking
            if type(pulled) is Envelope:
                value = pulled.read()
                for ticket in pulled.tickets:
                    ticket.finish("delivered")
                self._output = pulled
                before = engine.now()
                engine.flush()
                times.left = now = engine.now()
                times.messages += now - before
                return value  # type: ignore[no-any-return]
            if pulled is Blocked.PROGRESSED:
                continue
            if pulled is Blocked.ENDED:
                self._raise_errors()
                ending.deliver_messages(self, self._scheduler)
                self._ended = True
                self._final = self.stats()
                self.engine.close()
                raise StopIteration
            self._wait(pulled, looked + asking)

    def start(self) -> None:
        """Begin, or go on from `set_state`, now instead of with the first item."""
        self._start()

    def _start(self) -> None:
        if self._started:
            return
        if self.engine.used:
            raise BuildError(
                f"an engine serves one run, and this {type(self.engine).__name__} has served; "
                "make a new one for each run."
            )
        self._started = self.engine.used = True
        self.engine.open(self._seed)
        self._times.start(self.engine.now())
        self._scheduler.start()
        if self._restore is None:
            self._scheduler.begin()
        else:
            self._scheduler.fleet.paused = True
            state, self._restore = self._restore, None
            snapshot.restore(self, self._scheduler, state)

    def _wait(self, status: Any, since: float) -> None:
        """Nothing can be pulled, as a look has shown since then: let something happen."""
        fleet = self._scheduler.fleet
        if not fleet.expects_events:
            self._raise_errors()
            raise self._scheduler.deadlock(status)
        engine = self.engine
        if fleet.outbox.behind:
            before = engine.now()
            fleet.before_waiting()
            took = engine.now() - before
            self._times.messages += took
            since += took
        worked = engine.inline_seconds
        events = engine.wait(fleet.timers.until_next())
        # actors that live in the driver work while it waits: that is no waiting
        worked = engine.inline_seconds - worked
        came = engine.now()
        if events or not worked:
            path = fleet.operator_of(events[0]) if events else ""
            self._times.waited_for(path, came - since - worked)
        else:
            self._times.messages += came - since - worked
        self._handle(events)
        self._times.messages += engine.now() - max(came, self._times.begin)

    def _take_events(self, timeout: float | None) -> None:
        engine = self.engine
        before, worked = engine.now(), engine.inline_seconds
        self._handle(engine.wait(timeout))
        took = engine.now() - max(before, self._times.begin)
        self._times.messages += max(0.0, took - (engine.inline_seconds - worked))

    def _handle(self, events: list[Event]) -> None:
        if events and not self._answered and any(map(_is_answer, events)):
            self._answered = True  # rates are those of a running flow, without its start-up
            self.count_from_now()
        handle = self._scheduler.fleet.handle
        for event in events:
            handle(event)
        self._scheduler.settle()

    def _raise_errors(self) -> None:
        errors = self._scheduler.fleet.errors
        if errors:
            raise errors.popleft()

    # -- the end -------------------------------------------------------------------------------

    def __enter__(self) -> Run[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every actor and free everything. Safe to call twice, and from anywhere."""
        if self._started and not self._stopped and not self._ended:
            self._final = self.stats()
        self._stopped = True
        self._finalizer()

    # -- looking -------------------------------------------------------------------------------

    def stats(self) -> RunStats:
        """Per operator: items, rates, busy time, depth, lag; and a verdict on the bottleneck."""
        if self._ended or self._stopped:
            final: RunStats | None = getattr(self, "_final", None)
            if final is not None:
                return final
        now = self.engine.now() if self._started else self._times.begin
        return report.run_stats(self._scheduler, self._times, now)

    def count_from_now(self) -> None:
        """Forget the times so far, such as those of a warm-up: shares and rates begin anew."""
        self._times.start(self.engine.now())
        self._scheduler.begin_counting()

    def ledger(self) -> Ledger:
        """What became of every request; `print` it."""
        return self._scheduler.ledger

    def explain(self) -> str:
        """The flow as a text tree."""
        from rillflow.graph.render import to_text

        return to_text(self.program.root)

    @property
    def counters(self) -> Counter[str]:
        """Counters of the run as a whole, such as late results rejected."""
        return self._scheduler.fleet.counters

    def on_metrics(self, listener: Callable[[str, int, dict[str, Any]], None]) -> None:
        """Call `listener(actor, seq, metrics)` for metrics that travel with the answers."""
        self._scheduler.metrics_listeners.append(listener)

    @property
    def shared(self) -> dict[str, Any]:
        """What operators of the driver share in this run, such as a learner, by key."""
        return self._scheduler.shared

    def workers(self) -> dict[str, dict[str, Any]]:
        """Each actor: its state, incarnation, process id, restarts and errors."""
        pids = self.engine.pids()
        return {
            a.name: {
                "status": a.status,
                "incarnation": a.incarnation,
                "pid": pids.get(a.name),
                "restarts": a.counters["restarts"],
                "errors": a.counters["errors"],
                "in_flight": len(a.requests),
            }
            for a in self._scheduler.fleet.actors.values()
        }

    # -- acting --------------------------------------------------------------------------------

    def call(self, actor: ActorHandle | str, method: str, *args: Any) -> Any:
        """Call a method of an actor and wait for the answer; for inspection, not for operators."""
        return self.ask(self._find(actor), "invoke", (method, args))

    def send(
        self, to: ActorHandle | Actors, method: str, *args: Any, version: int | None = None
    ) -> None:
        """Send a message to actors, as an operator would."""
        self._start()
        self._scheduler.send(to, method, args, version)

    def add_workers(self, count: int = 1, group: Actors | None = None) -> list[str]:
        """Add actors to a source group while the flow runs; returns their names."""
        self._start()
        return membership.add(self._scheduler, count, group)

    def remove_worker(self, name: str) -> None:
        """Stop asking an actor; it ends when what it was asked for is delivered."""
        self._start()
        self._scheduler.fleet.remove(self._find(name))

    def get_state(self) -> dict[str, Any]:
        """Everything a resumed run needs: a cut at a step boundary, with no request on its way."""
        self._start()
        return snapshot.take(self, self._scheduler)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state taken by `get_state`; before the first item."""
        if self._started:
            raise RunError("set_state restores a run before its first item; this one has begun.")
        self._restore = state

    def _find(self, actor: ActorHandle | str) -> Actor:
        self._start()
        fleet = self._scheduler.fleet
        if isinstance(actor, ActorHandle):
            actor = self.program.actor_name(actor)
        if actor not in fleet.actors:
            raise BuildError(f"no actor {actor!r} in this run; there are {sorted(fleet.actors)}.")
        return fleet.actors[actor]

    def quiesce(self) -> None:
        """Let every request come in, and make no new ones; the cut of a snapshot."""
        fleet = self._scheduler.fleet
        fleet.paused = True
        self._pulls = 0
        if self._output is not None:
            self._output.release()
            self._output = None
        while fleet.by_request or any(a.status == "waiting" for a in fleet.actors.values()):
            self._take_events(fleet.timers.until_next())

    def ask(self, actor: Actor, method: str, argument: Any) -> Any:
        """Ask an actor's host and handle events until it answers."""
        fleet = self._scheduler.fleet
        while actor.status == "waiting":  # it is about to be restarted
            self._take_events(fleet.timers.until_next())
        if actor.status == "gone":
            raise RunError(f"actor {actor.name!r} is gone and cannot be asked for {method!r}.")
        answer = Answer(f"{method} of {actor.name}")
        fleet.call(actor, answer, method, self.engine.put(argument))
        self.wait_for([answer])
        if answer.lost:
            raise WorkerLost(f"actor {actor.name!r} was lost while it was asked for {method!r}.")
        return None if answer.payload is None else answer.payload.get()

    def wait_for(self, answers: list[Answer]) -> None:
        """Handle events until all calls are answered."""
        timers = self._scheduler.fleet.timers
        while not all(answer.done for answer in answers):
            self._take_events(timers.until_next())
            self._raise_errors()


def _is_answer(event: Event) -> bool:
    return isinstance(event, Completed) and not event.header.not_ready
