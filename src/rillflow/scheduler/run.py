"""A running flow: the one driver loop, and what a user can ask of it.

States of a run: `new` (nothing has started), `running`, `ended` (its stream has ended), `failed`
(it could not start, or its engine cannot go on), `stopped` (by the user). After `ended`, `failed`
and `stopped` everything has been given back; statistics and the ledger stay. An error of user code
or a lost worker does not end a run: whoever catches it may go on.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, TypeVar

from rillflow.engines.contract import Engine
from rillflow.engines.registry import make_engine
from rillflow.errors import BuildError, CheckError, EngineError, RunError
from rillflow.graph import check
from rillflow.graph.handles import ActorHandle, Actors
from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.scheduler import kinds, membership, report, snapshot
from rillflow.scheduler.actor import Actor
from rillflow.scheduler.driver import Driver, Stopped
from rillflow.scheduler.ledger import Ledger
from rillflow.scheduler.scheduler import Scheduler
from rillflow.scheduler.stats import RunStats
from rillflow.types import FailurePolicy, Reaction

T = TypeVar("T")
State = Literal["new", "running", "ended", "failed", "stopped"]
_PATIENCE = 2.0
"""seconds that `stop` waits for another thread which is inside user code of the driver"""


def problems(root: Node) -> list[str]:
    """Everything that would make the flow behind `root` fail; nothing is started."""
    return _problems(Program(root))


def _problems(program: Program) -> list[str]:
    return [*check.problems_of(program), *kinds.problems(program)]


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
        found = _problems(self.program)
        if found:
            raise CheckError(found)
        self.trace: list[tuple[Any, ...]] = []
        self._scheduler = Scheduler(self.program, self.engine, seed, FailurePolicy.of(on_failure))
        if trace:
            self._scheduler.fleet.log_to(
                lambda *what: self.trace.append((self.engine.now(), *what))
            )
        self._seed = seed
        self._driver = Driver(self._scheduler, self.engine)
        inside = self.engine.actors_in_driver
        self._next_item: Callable[[], T] = (
            self._driver.next_entered if inside else self._driver.next
        )
        self._state: State = "new"
        self._gate = threading.RLock()
        """taken by the thread that works for the run"""
        self._restore: dict[str, Any] | None = None
        self._final: RunStats | None = None
        self._finalizer = weakref.finalize(self, self.engine.close)

    @property
    def state(self) -> State:
        """`new`, `running`, `ended`, `failed` or `stopped`."""
        return self._state

    # -- iteration -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        gate = self._gate
        gate.acquire()
        try:
            if self._state != "running":
                self._begin()
            return self._next_item()
        except StopIteration:
            if self._state == "running":
                self._give_back("ended")
            raise
        except Stopped:
            self._give_back("stopped")
            raise StopIteration from None
        except EngineError:
            self._give_back("failed")
            raise
        finally:
            gate.release()

    def _begin(self) -> None:
        if self._state != "new":
            raise StopIteration
        self._start()

    def start(self) -> None:
        """Begin, or go on from `set_state`, now instead of with the first item."""
        with self._gate:
            self._start()

    def _start(self) -> None:
        if self._state == "running":
            return
        if self._state != "new":
            raise self._wrong("start")
        if self.engine.used:
            raise BuildError(
                f"an engine serves one run, and this {type(self.engine).__name__} has served; "
                "make a new one for each run."
            )
        self._state = "running"
        self.engine.used = True
        try:
            self._bring_to_life()
        except BaseException:
            self._give_back("failed")
            raise

    def _bring_to_life(self) -> None:
        self.engine.open(self._seed)
        self.engine.enter()
        try:
            self._bring_actors_to_life()
        finally:
            self.engine.leave()

    def _bring_actors_to_life(self) -> None:
        scheduler, state = self._scheduler, self._restore
        self._restore = None
        self._driver.times.start(self.engine.now())
        scheduler.start(None if state is None else snapshot.members_of(state, scheduler))
        scheduler.prepare()
        if state is None:
            scheduler.begin()
        else:
            scheduler.fleet.paused = True
            snapshot.restore(self._driver, scheduler, state)
        self._driver.post()

    # -- the end -------------------------------------------------------------------------------

    def __enter__(self) -> Run[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every actor and free everything. Safe to call twice, and from any thread.

        Another thread that waits inside `next()` gets StopIteration. If that thread is inside user
        code, the actors end now, and the rest is given back when the code returns.
        """
        self._driver.stopping = True
        if self._state == "running":
            self.engine.wake()
        if not self._gate.acquire(timeout=_PATIENCE):
            return  # whoever has the gate sees that the run is to stop
        try:
            self._give_back("stopped")
        finally:
            self._gate.release()

    def _give_back(self, state: State) -> None:
        """Everything but what was counted is given back; the first state that is final stays."""
        if self._state in ("ended", "failed", "stopped"):
            return
        with contextlib.suppress(Exception):  # what was counted must not keep processes alive
            self._final = self.stats()
        self._state = state
        try:
            self._finalizer()
        finally:
            for close in [getattr(one, "close", None) for one in self.shared.values()]:
                if callable(close):  # a learner, of which others are beside
                    close()
            self._driver.output = None
            self._scheduler.release()

    def _wrong(self, what: str) -> RunError:
        how = {
            "ended": "its stream has ended",
            "failed": "its engine could not start, or not go on",
            "stopped": "it was stopped",
        }
        return RunError(
            f"{what} needs a run that is new or running; this one is {self._state}: "
            f"{how.get(self._state, 'it has begun')}. Make a new run of the flow, and restore a "
            "saved state into it with set_state if it is to go on."
        )

    # -- looking -------------------------------------------------------------------------------

    def stats(self) -> RunStats:
        """Per operator: items, rates, busy time, depth, lag; and a verdict on the bottleneck."""
        if self._final is not None:
            return self._final
        times = self._driver.times
        now = times.begin if self._state == "new" else self.engine.now()
        return report.run_stats(self._scheduler, times, now)

    def count_from_now(self) -> None:
        """Forget the times so far, such as those of a warm-up: shares and rates begin anew."""
        self._driver.count_from_now()

    def ledger(self) -> Ledger:
        """What became of every request and message; `print` it."""
        return self._scheduler.ledger

    def explain(self) -> str:
        """The flow as a text tree."""
        from rillflow.pictures.text import to_text

        return to_text(self.program.root)

    @property
    def counters(self) -> Counter[str]:
        """Counters of the run as a whole, such as late results rejected."""
        return self._scheduler.fleet.counters

    def on_metrics(self, listener: Callable[[str, int, dict[str, Any]], None]) -> None:
        """Call `listener(actor, seq, metrics)` for metrics that travel with the answers."""
        self._scheduler.metrics_listeners.append(listener)

    def on_fault(self, listener: Callable[[str], None]) -> None:
        """Call `listener(text)` for each failure that the run goes on after, with what was done."""
        self._scheduler.fleet.on_fault.append(listener)

    @property
    def shared(self) -> dict[str, Any]:
        """What operators of the driver share in this run, such as a learner, by key."""
        return self._scheduler.shared

    def workers(self) -> dict[str, dict[str, Any]]:
        """Each actor: its state, incarnation, process id, restarts and errors."""
        pids = self.engine.pids() if self._state == "running" else {}
        return {
            a.name: {
                "status": a.status,
                "incarnation": a.incarnation,
                "pid": pids.get(a.name),
                "restarts": a.counters["restarts"],
                "errors": a.counters["errors"],
                "in_flight": len(a.requests),
                "slowest": a.slowest,
            }
            for a in self._scheduler.fleet.actors.values()
        }

    # -- acting --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _at_work(self, what: str) -> Iterator[Scheduler]:
        """The run, begun if it was new, for one thread; whatever was sent to actors then leaves."""
        with self._gate:
            if self._state not in ("new", "running") or self._driver.stopping:
                raise self._wrong(what)
            self._start()
            self.engine.enter()
            try:
                yield self._scheduler
                self._driver.post()
            except Stopped:
                self._give_back("stopped")
                raise self._wrong(what) from None
            finally:
                self.engine.leave()

    def call(self, actor: ActorHandle | str, method: str, *args: Any) -> Any:
        """Call a method of an actor and wait for the answer; for inspection, not for operators."""
        with self._at_work("call"):
            return self._driver.ask(self._find(actor), "invoke", (method, args))

    def send(
        self,
        to: ActorHandle | Actors,
        method: str,
        *args: Any,
        version: int | None = None,
        key: str | None = None,
    ) -> None:
        """Send a message to actors, as an operator would."""
        with self._at_work("send") as scheduler:
            scheduler.send(to, method, args, version, key)

    def add_workers(self, count: int = 1, group: Actors | None = None) -> list[str]:
        """Add actors to a source group while the flow runs; returns their names."""
        with self._at_work("add_workers") as scheduler:
            return membership.add(scheduler, count, group)

    def remove_worker(self, name: str) -> None:
        """Stop asking an actor; it ends when what it was asked for is delivered."""
        with self._at_work("remove_worker") as scheduler:
            scheduler.fleet.remove(self._find(name))

    def get_state(self, timeout: float | None = None, *, partial: bool = False) -> dict[str, Any]:
        """Everything a resumed run needs: a cut at a step boundary, with no request on its way.

        With a `timeout`, a run whose actors do not come to rest within so many seconds goes on, and
        a RunError names these actors. With `partial` as well, those of them that their policy
        restarts are restarted now, and the state is that of all others.
        """
        with self._at_work("get_state") as scheduler:
            return snapshot.take(self._driver, scheduler, timeout, partial=partial)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state taken by `get_state`; before the first item."""
        if self._state != "new":
            raise RunError(
                "set_state restores a run before its first item; this one has begun and is "
                f"{self._state}. Make a new run of the flow."
            )
        snapshot.check_format(state)
        self._restore = state

    def _find(self, actor: ActorHandle | str) -> Actor:
        fleet = self._scheduler.fleet
        if isinstance(actor, ActorHandle):
            found = fleet.by_uid.get(actor.uid)
            if found is not None:
                return found
            actor = f"{actor.group.name}-{actor.index}"
        if actor not in fleet.actors:
            raise BuildError(f"no actor {actor!r} in this run; there are {sorted(fleet.actors)}.")
        return fleet.actors[actor]
