"""Transforms in the driver: envelopes in, envelopes out."""

from __future__ import annotations

import copy
import time
import types
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rillflow.engines.transforms import ForEach, Marks, Outs, make_transform
from rillflow.errors import BuildError, OperatorError, RillflowError, describe_exception
from rillflow.graph.handles import ActorHandle, Actors
from rillflow.graph.node import Node
from rillflow.scheduler.envelope import Blocked, Envelope, Pulled
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.mail import Deferred
from rillflow.scheduler.step import Step
from rillflow.seeding import derive_seed
from rillflow.types import Provenance, Ref

if TYPE_CHECKING:
    from rillflow.scheduler.saving import Loader, Saver
    from rillflow.scheduler.scheduler import Scheduler

T = TypeVar("T")


class DriverContext:
    """The context of an operator in the driver, aimed at each item in turn."""

    actor = None
    info = None

    def __init__(self, scheduler: Scheduler, operator: str) -> None:
        self.operator = operator
        self.targets: set[str] = set()
        """groups that the operator has sent messages to: it works only while they have credit"""
        self._scheduler = scheduler
        self._tickets: tuple[Ticket, ...] = ()

    def aim(self, tickets: tuple[Ticket, ...]) -> DriverContext:
        """Speak for the item with these tickets from now on."""
        self._tickets = tickets
        return self

    @property
    def provenance(self) -> Provenance:
        """Which requests made this item, and with which weights."""
        return tuple(dict.fromkeys(ticket.source for ticket in self._tickets))

    @property
    def sources(self) -> tuple[ActorHandle, ...]:
        """The actors that made this item, each once."""
        actors = self._scheduler.fleet.actors
        if len(self._tickets) == 1:
            return (actors[self._tickets[0].actor].handle,)
        return tuple(actors[name].handle for name in dict.fromkeys(t.actor for t in self._tickets))

    @property
    def lag(self) -> int:
        """By how many versions the oldest weights behind this item are older than the newest."""
        return self._scheduler.lag_of(self._tickets)

    def send(
        self,
        to: ActorHandle | Actors | Iterable[ActorHandle],
        method: str,
        *args: Any,
        version: int | None = None,
        key: str | None = None,
    ) -> None:
        """Call a method of actors without waiting for it."""
        self._scheduler.send(to, method, args, version, key, self.targets)

    def put(self, value: Any) -> Ref:
        """Serialise a value once, to send it to many actors."""
        if isinstance(value, Ref):
            return value
        return self._scheduler.fleet.engine.put(value)

    def defer(self, value: Any) -> Ref:
        """As `put`, but serialised only when the value is really sent."""
        return Deferred(self._scheduler.fleet.engine, value)

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self._scheduler.seed

    def shared(self, key: str, make: Callable[[], T]) -> T:
        """What several operators share in one run; made by the first that asks."""
        return self._scheduler.share(key, make)  # type: ignore[no-any-return]

    def on_metrics(self, listener: Callable[[str, int, dict[str, Any]], None]) -> None:
        """Listen to metrics that travel with the answers."""
        self._scheduler.metrics_listeners.append(listener)

    def count(self, counter: str, n: int = 1) -> None:
        """Add to a counter of this operator."""
        self._scheduler.stats_of(self.operator).counters[counter] += n

    def mark(self, outcome: str) -> None:
        """Tell the ledger what became of this item."""
        if outcome not in ("trained", "stored"):
            raise BuildError(f"an item is marked 'trained' or 'stored'; got {outcome!r}.")
        for ticket in self._tickets:
            ticket.mark(outcome)


class TransformStep(Step):
    """One transform node of the driver."""

    kind = "transform"

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        self.path = scheduler.path_of(node)
        (self.pull_upstream,) = self.upstream
        self.ctx = DriverContext(scheduler, name)
        self.crowded = scheduler.fleet.office.crowded
        seed = derive_seed(scheduler.seed, name)
        self.transform = make_transform(node, own_copy(node["fn"], name), self, seed)
        self.one_to_one = type(self.transform) is ForEach
        self.counts_cpu = scheduler.fleet.engine.counts_cpu
        self.out: deque[Envelope] = deque()
        self.upstream_ended = False
        self.began = False

    # -- what the transform asks for (its Accounts) ----------------------------------------------

    def drop(self, marks: Marks, reason: str) -> None:
        """These items end here."""
        for ticket in marks:
            ticket.finish(f"{reason} by {self.name}")

    def share(self, marks: Marks, extra: int) -> None:
        """These tickets now belong to `extra` further items."""
        if extra:
            for ticket in marks:
                ticket.add_pieces(extra)

    def context(self, marks: Marks) -> DriverContext:
        """The context, aimed at the item with these tickets."""
        return self.ctx.aim(marks)

    def handle(self, marks: Marks) -> Any:
        """The actor that made the item; a tuple if there are several."""
        sources = self.ctx.aim(marks).sources
        return sources[0] if len(sources) == 1 else sources

    def start(self) -> None:
        """Before the first request: let the operator do what it does once."""
        if not self.began:
            self.began = True
            hook = getattr(self.transform.fn, "on_start", None)
            if hook is not None:
                self._once(lambda: hook(self.ctx.aim(())) or [])

    # -- the step ------------------------------------------------------------------------------

    def pull(self) -> Pulled:
        """The next item, or why there is none; consumes at most one input."""
        if self.out:
            self.stats.items += 1
            return self.out.popleft()
        transform = self.transform
        if transform.ended or self.upstream_ended:
            return Blocked.ENDED
        if self.crowded and not self.ctx.targets.isdisjoint(self.crowded):
            return Blocked.CROWDED
        pulled = self.pull_upstream()
        if type(pulled) is Envelope:
            if self.one_to_one:
                return self._apply(pulled)
            outs = self._feed(pulled)
            if len(outs) == 1 and not transform.ended:
                pulled.value, pulled.tickets = outs[0]
                pulled.lazy = self._is_lazy(pulled.value)
                self.stats.items += 1
                return pulled
            self._queue(outs, pulled)
        elif pulled is Blocked.ENDED:
            self.upstream_ended = True
            self._queue(self._once(transform.flush), None)
        else:
            return pulled
        if transform.ended:
            self.scheduler.detach(self.node.inputs[0])
        if self.out:
            self.stats.items += 1
            return self.out.popleft()
        return Blocked.PROGRESSED

    def _apply(self, envelope: Envelope) -> Envelope:
        """The usual case, one in and one out: the envelope goes on with its new value."""
        transform, stats = self.transform, self.stats
        cpu = time.thread_time() if self.counts_cpu else 0.0
        wall = time.perf_counter()
        try:
            value = envelope.value
            if transform.reads and envelope.lazy:
                value = envelope.read()
            if transform.with_context:
                ctx = self.ctx
                ctx._tickets = envelope.tickets
                made = transform.fn(value, ctx)
            else:
                made = transform.fn(value)
            value = envelope.value = made  # freeing a large item takes the operator's time
        except BaseException as error:
            self._failed(envelope, error)
        finally:
            if self.counts_cpu:
                self._spent(wall, cpu, len(envelope.tickets))
            else:
                stats.busy += time.perf_counter() - wall
                stats.calls += 1
        envelope.lazy = isinstance(value, Ref) if transform.reads else self._is_lazy(value)
        stats.items += 1
        return envelope

    def _feed(self, envelope: Envelope) -> Outs:
        transform = self.transform
        cpu = time.thread_time() if self.counts_cpu else 0.0
        wall = time.perf_counter()
        try:
            value = envelope.value
            if transform.reads or not (isinstance(value, Ref) or transform.fn is not None):
                value = envelope.read()  # an operator that takes references gets a round of them
            outs = transform.feed(value, envelope.tickets)
            value = envelope.value = None  # freeing a large item takes the operator's time
            return outs
        except BaseException as error:
            self._failed(envelope, error)
        finally:
            self._spent(wall, cpu, len(envelope.tickets))

    def _is_lazy(self, value: Any) -> bool:
        if self.transform.reads or isinstance(value, Ref):
            return isinstance(value, Ref)
        return type(value) in (list, tuple) and any(isinstance(part, Ref) for part in value)

    def _queue(self, outs: Outs, source: Envelope | None) -> None:
        hold = None if source is None else source.hold
        if hold is not None and len(outs) != 1:
            if outs:
                hold.retain(len(outs) - 1)
            else:
                hold.release()
        for value, marks in outs:
            self.out.append(Envelope(value, marks, hold, self._is_lazy(value)))

    def _once(self, work: Callable[[], Outs]) -> Outs:
        """User code without an item: at the start, and at the end of the input."""
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            return work()
        except BaseException as error:
            self._raise(error)
        finally:
            self._spent(wall, cpu, 0)

    def _failed(self, envelope: Envelope, error: BaseException) -> NoReturn:
        """The item ends here, whatever was raised: its source must not wait for it for ever."""
        what = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
        envelope.finish(f"{what} in {self.name}")
        self._raise(error)

    def _raise(self, error: BaseException) -> NoReturn:
        """An exception of user code becomes an error that names operator and line."""
        if isinstance(error, RillflowError | KeyboardInterrupt):
            raise error
        raise OperatorError.build(describe_exception(error), self.path, None, error) from error

    def _spent(self, wall: float, cpu: float, parts: int) -> None:
        wall = time.perf_counter() - wall
        if self.counts_cpu:
            cpu = time.thread_time() - cpu
            wall = self.scheduler.fleet.engine.spend(self.name, wall, cpu, parts)
        self.stats.busy += wall
        self.stats.calls += 1

    # -- state and audit -----------------------------------------------------------------------

    def held(self) -> list[Marks]:
        inside = [marks for _, marks in self.transform.inside()]
        return [*inside, *(envelope.tickets for envelope in self.out)]

    @property
    def depth(self) -> int:
        return len(self.transform.inside()) + len(self.out)

    def detach(self) -> None:
        super().detach()
        out, self.out = self.out, deque()
        for envelope in out:
            envelope.finish("reader ended")

    def cut(self) -> None:
        for envelope in self.out:
            envelope.release()

    def release(self) -> None:
        self.out.clear()
        self.transform.clear()

    def get_state(self, save: Saver) -> Any:
        return {
            "transform": save.inside(self.transform.get_state()),
            "ended": self.upstream_ended,
            "out": [save.envelope(envelope) for envelope in self.out],
        }

    def set_state(self, state: Any, load: Loader) -> None:
        self.transform.set_state(load.inside(state["transform"]))
        self.upstream_ended = state["ended"]
        self.out.extend(load.envelope(row) for row in state["out"])


def own_copy(fn: Any, operator: str) -> Any:
    """The copy of a stateful callable for this run; functions and methods are used as they are.

    A closure of the driver is not copied: `for_each(results.append)` fills the user's list.
    """
    if fn is None or isinstance(
        fn, types.FunctionType | types.MethodType | types.BuiltinFunctionType | type
    ):
        return fn
    try:
        return copy.deepcopy(fn)
    except Exception as error:  # whatever a class may say when it refuses
        raise BuildError(
            f"every run works on its own copy of a stateful operator, but {operator!r} cannot be "
            f"copied ({type(error).__name__}: {error}). Make what it holds in its first call, or "
            "give its class a __deepcopy__."
        ) from error
