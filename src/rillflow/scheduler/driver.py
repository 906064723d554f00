"""The driver loop: pull what can be pulled, else wait for something to happen.

Everything that happens in a run happens in here, on the thread that calls `next`. One turn of the
loop pulls the output of the program once. While there is something to pull, events are looked for
after every eighth turn; with nothing to pull the driver sleeps in the engine until there is one. To
sleep is to look: on engines of real time the turns are counted from the last wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rillflow.engines.contract import Completed, Engine, Event
from rillflow.errors import OperatorError, RunError, WorkerLost, describe_exception
from rillflow.scheduler import ending
from rillflow.scheduler.actor import Actor, Answer
from rillflow.scheduler.envelope import Blocked, Envelope
from rillflow.scheduler.scheduler import Scheduler
from rillflow.scheduler.times import DriverTimes

_LOOK_EVERY = 8
"""pulls after which is looked at what has arrived, while there is something to pull anyway"""
_AT_ONCE = 0.0005
"""seconds that a message may wait for others to leave with it"""


class Stopped(Exception):  # noqa: N818 - a signal from another thread
    """Somebody has stopped the run."""


class TooLate(RunError):  # noqa: N818 - what it is
    """Actors did not do in time what they were asked for."""


class Driver:
    """The loop of one run."""

    def __init__(self, scheduler: Scheduler, engine: Engine) -> None:
        self.scheduler = scheduler
        self.engine = engine
        self.times = DriverTimes()
        self.output: Envelope | None = None
        """the item that the user has now"""
        self.stopping = False
        """set by any thread: the loop ends at its next turn"""
        self._office = scheduler.fleet.office
        self._now = engine.now
        self._answered = False
        self._pulls = 0
        self._flushed = 0.0

    def next_entered(self) -> Any:
        """As `next`, for an engine that has to know when the driver works for it."""
        self.engine.enter()
        try:
            return self.next()
        finally:
            self.engine.leave()

    def next(self) -> Any:
        """The next item for the user; StopIteration at the end of the stream."""
        now, office = self._now(), self._office
        if self.times.given is not None:
            now = self._come_back(now)
        pull, errors = self.scheduler.pull, self.scheduler.fleet.errors
        while True:
            self._pulls += 1
            if self._pulls % _LOOK_EVERY == 0:
                self.take_events(0.0)
                now = self._now()
            if errors:
                raise errors.popleft()
            if self.stopping:
                raise Stopped
            pulled = pull()
            if type(pulled) is Envelope:
                return self._deliver(pulled)
            if pulled is Blocked.PROGRESSED:
                if office.unflushed or office.listeners:
                    now = self._post_in_time(now)
                continue
            if pulled is Blocked.ENDED:
                self.raise_errors()
                ending.deliver_messages(self, self.scheduler)
                raise StopIteration
            assert isinstance(pulled, Blocked)
            self._wait(pulled, now)
            now = self._now()

    def _come_back(self, now: float) -> float:
        """The user's loop asks for the next item: it is done with the last; returns the time."""
        times, output = self.times, self.output
        self.output = None
        if output is not None and output.hold is not None:  # a snapshot may have let go of the item
            output.hold.release()
        self._office.unflushed = False
        self.engine.flush()  # a worker that was asked again starts at once, before anything else
        self._flushed = flushed = self._now()
        given, times.given = times.given or 0.0, None
        times.loop += now - (given if given > times.begin else times.begin)
        times.rounds += 1
        times.messages += flushed - now
        return flushed

    def post(self) -> None:
        """Everything leaves that was sent to actors."""
        office = self.scheduler.fleet.office
        if office.behind:
            office.post_newest()
        office.unflushed = False
        self.engine.flush()
        self._flushed = self.engine.now()

    def _post_in_time(self, now: float) -> float:
        """While one pull follows another, messages leave together, but soon; returns the time."""
        before = self.engine.now()
        if before - self._flushed <= _AT_ONCE:
            return now
        office = self.scheduler.fleet.office
        if office.listeners:
            self._post_to_listeners()
        office.unflushed = False
        self.engine.flush()
        self._flushed = self.engine.now()
        self.times.messages += self._flushed - before
        return self._flushed

    def _deliver(self, envelope: Envelope) -> Any:
        """Hand an item to the user; what was sent to actors leaves before the user's code runs."""
        if envelope.lazy:
            self._read(envelope)
        for ticket in envelope.tickets:
            ticket.finish("delivered")
        self.output = envelope
        office, times = self._office, self.times
        times.given = before = self._now()
        if office.listeners or office.unflushed:
            if office.listeners:
                self._post_to_listeners()
            office.unflushed = False
            self.engine.flush()
            times.given = self._flushed = now = self._now()
            times.messages += now - before
        return envelope.value

    def _read(self, envelope: Envelope) -> None:
        """Fetch an item that nobody has read; the life of one that cannot be read ends here."""
        try:
            envelope.read()
        except BaseException as error:
            envelope.finish("unreadable")
            if isinstance(error, RunError | KeyboardInterrupt):
                raise
            program = self.scheduler.program
            where = program.names[program.root]
            raise OperatorError.build(describe_exception(error), where, None, error) from error

    def _post_to_listeners(self) -> None:
        """Versioned messages leave now to actors that nobody asks for items."""
        office = self.scheduler.fleet.office
        office.post_newest(listeners=True)
        if office.listeners:  # listeners may have handled earlier versions, and said so
            self._handle(self.engine.peek())
            office.post_newest(listeners=True)

    def _wait(self, status: Blocked, since: float) -> None:
        """Nothing can be pulled, as a look since `since` has shown: let something happen."""
        fleet, engine, times = self.scheduler.fleet, self.engine, self.times
        if not fleet.expects_events:
            self.raise_errors()
            raise self.scheduler.deadlock(status)
        self._post_before_waiting()
        worked = engine.inline_seconds
        timeout = fleet.timers.until_next()
        times.waits_since = since
        try:
            events = engine.wait(timeout)
        finally:
            times.waits_since = None
        # actors that live in the driver work while it waits: that is no waiting
        worked = engine.inline_seconds - worked
        if not engine.actors_in_driver:
            self._pulls = 0  # a wait was a look; in a simulation, when one looks is part of the run
        self._flushed = came = engine.now()
        if events:
            times.waited_for(fleet.operator_of(events[0]), came - since - worked)
        elif timeout is None and not worked and not self.stopping and self._is_stuck():
            raise self.scheduler.deadlock(status)
        elif worked:
            times.messages += came - since - worked
        else:
            times.waited_for("", came - since)
        self._handle(events)
        times.messages += engine.now() - max(came, times.begin)

    def _post_before_waiting(self) -> None:
        """Whatever has not left leaves now. But while the driver only waits for itself, versioned
        messages to actors that will be asked stay: newer versions may come meanwhile."""
        fleet = self.scheduler.fleet
        if fleet.office.behind:
            fleet.office.post_newest(listeners=fleet.inline > 0)
        fleet.office.unflushed = False

    def _is_stuck(self) -> bool:
        """Whether an engine without threads had nothing to do, and never will have."""
        return self.engine.actors_in_driver and not self.scheduler.fleet.timers

    def take_events(self, timeout: float | None) -> None:
        engine = self.engine
        if timeout != 0.0:
            self._post_before_waiting()
        before, worked = engine.now(), engine.inline_seconds
        self.times.waits_since = None if timeout == 0.0 else before
        try:
            events = engine.wait(timeout)
        finally:
            self.times.waits_since = None
        self._handle(events)
        self._flushed = now = engine.now()
        took = now - max(before, self.times.begin)
        self.times.messages += max(0.0, took - (engine.inline_seconds - worked))

    def _handle(self, events: list[Event]) -> None:
        if events and not self._answered and any(map(_is_answer, events)):
            self._answered = True  # rates are those of a running flow, without its start-up
            self.count_from_now()
        handle = self.scheduler.fleet.handle
        for event in events:
            handle(event)
        self.scheduler.settle()

    def count_from_now(self) -> None:
        """Forget the times so far: shares and rates begin anew."""
        self.times.start(self.engine.now())
        self.scheduler.begin_counting()

    def raise_errors(self) -> None:
        errors = self.scheduler.fleet.errors
        if errors:
            raise errors.popleft()

    # -- asking --------------------------------------------------------------------------------

    def quiesce(self, timeout: float | None = None) -> None:
        """Let every request come in, and make no new ones; the cut of a snapshot."""
        fleet = self.scheduler.fleet
        fleet.paused = True
        self._pulls = 0
        if self.output is not None:
            self.output.release()
            self.output = None
        self._until(
            lambda: (
                not (fleet.in_flight or any(a.status == "waiting" for a in fleet.actors.values()))
            ),
            timeout,
            "come to rest",
        )

    def ask(self, actor: Actor, method: str, argument: Any, timeout: float | None = None) -> Any:
        """Ask an actor's host and handle events until it answers."""
        fleet = self.scheduler.fleet
        # the actor may be about to be restarted
        self._until(lambda: actor.status != "waiting", timeout, "be restarted")
        if actor.status == "gone":
            raise RunError(f"actor {actor.name!r} is gone and cannot be asked for {method!r}.")
        answer = Answer(f"{method} of {actor.name}")
        fleet.call(actor, answer, method, actor.port.pack(argument))
        self.wait_for([answer], timeout)
        if answer.error is not None:
            raise answer.error
        if answer.lost:
            raise WorkerLost(f"actor {actor.name!r} was lost while it was asked for {method!r}.")
        return None if answer.payload is None else answer.payload.get()

    def wait_for(self, answers: list[Answer], timeout: float | None = None) -> None:
        """Handle events until all calls are answered."""
        self._until(lambda: all(answer.done for answer in answers), timeout, "answer")

    def _until(self, done: Callable[[], bool], timeout: float | None, what: str) -> None:
        """Handle events until `done()` is true."""
        fleet, engine = self.scheduler.fleet, self.engine
        deadline = None if timeout is None else engine.now() + timeout
        while not done():
            left = fleet.timers.until_next()
            if deadline is not None:
                rest = deadline - engine.now()
                if rest <= 0:
                    raise TooLate(self._too_late(what, timeout))
                left = rest if left is None else min(left, rest)
            before = engine.now()
            self.take_events(left)
            self.raise_errors()
            if self.stopping:
                raise Stopped
            stuck = engine.actors_in_driver and left is None and engine.now() == before
            if stuck and not done() and not self._take_last_events():
                raise TooLate(self._too_late(what, None))

    def _take_last_events(self) -> bool:
        """Whether an engine without threads has anything left to do."""
        events = self.engine.wait(None)
        self._handle(events)
        return bool(events)

    def silent(self) -> list[Actor]:
        """Actors that owe an answer, or are about to be restarted."""
        actors = self.scheduler.fleet.actors.values()
        return [a for a in actors if a.requests or a.status == "waiting"]

    def _too_late(self, what: str, timeout: float | None) -> str:
        silent = sorted(actor.name for actor in self.silent())
        within = "ever" if timeout is None else f"within {timeout:g} s"
        return (
            f"{', '.join(silent) or 'an actor'} did not {what} {within}. A time-out in the "
            "FailurePolicy ends actors that hang."
        )


def _is_answer(event: Event) -> bool:
    return type(event) is Completed and not event.header.not_ready
