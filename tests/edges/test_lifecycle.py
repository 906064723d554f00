"""A run has named states: calls in the wrong one are errors, and `stop` gives everything back."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.testing import flow_of
from rillflow.testing.actors import Worker
from tests.edges.parts import PATIENCE, Bell, Sink, Stuck, descriptors, ring
from tests.engines.processes import children, gone

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before = children()
    yield
    left = list(children() - before)
    assert gone(left), f"processes left behind: {left}"


WORKERS = rf.Actors.of(Worker, 2, name="worker")


def endless() -> rf.Flow[Any]:
    return rf.from_actors(WORKERS, "named").gather_async()


# -- states ----------------------------------------------------------------------------------------


def test_a_run_that_ends_was_new_and_running(engine):
    """new, running, ended: also after it is stopped."""
    with rf.from_range(2, 1).gather_async().run(engine) as run:
        assert run.state == "new"
        next(run)
        assert run.state == "running"
        assert list(run) == [1]
        assert run.state == "ended"
    assert run.state == "ended"
    assert list(run) == []


def test_a_run_that_is_stopped_is_stopped(engine):
    """Before its first item, and after some."""
    with endless().run(engine) as run:
        run.stop()
        assert run.state == "stopped"
        assert list(run) == []
    with endless().run(engine) as run:
        next(run)
        assert run.state == "running"
    assert run.state == "stopped"
    assert list(run) == []


def test_a_run_whose_user_code_raised_is_still_running(engine):
    """An error that a policy raised is an event; the flow goes on."""

    def picky(n: int) -> int:
        if n == 1:
            raise ValueError("once")
        return n

    with rf.from_range(3, 1).for_each(picky).gather_async().run(engine) as run:
        next(run)
        with pytest.raises(ValueError, match="once"):
            next(run)
        assert run.state == "running"
        assert list(run) == [2]
        assert run.state == "ended"


class Refuses(rf.Operator[Any, Any]):
    """An operator that cannot begin."""

    def on_start(self, ctx: rf.Context) -> None:
        raise ValueError("not today")

    def __call__(self, item: Any) -> Any:
        return item


def test_a_run_that_could_not_start_has_failed(engine):
    """What was started is given back, nothing comes, and calls name the state."""
    before = children()
    with endless().for_each(Refuses()).run(engine) as run:
        with pytest.raises(ValueError, match="not today"):
            next(run)
        assert run.state == "failed"
        assert gone(list(children() - before))
        with pytest.raises(rf.RunError, match="failed"):
            run.call("worker-0", "named")
    assert run.state in ("failed", "stopped")


@pytest.mark.parametrize("other", ["operators", "actors"])
def test_a_run_with_the_state_of_another_flow_has_failed(engine, other):
    """A state that cannot be restored is a RunError, and starts nothing that stays."""
    flow = endless().batch(2) if other == "operators" else rf.from_range(3, 1).gather_async()
    with flow.run("sim") as saved:
        next(saved)
        state = saved.get_state()
    with endless().run(engine) as run:
        run.set_state(state)
        with pytest.raises(rf.RunError, match="another flow"):
            next(run)
        assert run.state == "failed"


class Ready:
    """Ready after the first message."""

    def __init__(self) -> None:
        self.told = 0

    def tell(self, _: int) -> None:
        self.told += 1

    def next(self) -> int:
        if not self.told:
            raise rf.NotReady
        return self.told


def test_a_deadlock_can_be_resolved(engine):
    """A run that waits for what nobody will do says so, and goes on when somebody does it."""
    actors = rf.Actors.of(Ready, 1)
    with rf.from_actors(actors).gather_async().run(engine) as run:
        with pytest.raises(rf.DeadlockError):
            next(run)
        assert run.state == "running"
        run.send(actors, "tell", 1)
        assert next(run) == 1


CALLS: dict[str, Callable[[rf.Run[Any]], Any]] = {
    "call": lambda run: run.call("worker-0", "named"),
    "call of a handle": lambda run: run.call(WORKERS[0], "named"),
    "send": lambda run: run.send(WORKERS, "tell", 1),
    "add_workers": lambda run: run.add_workers(),
    "remove_worker": lambda run: run.remove_worker("worker-0"),
    "get_state": lambda run: run.get_state(),
    "set_state": lambda run: run.set_state({}),
    "start": lambda run: run.start(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", ["ended", "stopped", "stopped before it began"])
def test_a_call_after_the_end_is_an_error_that_names_the_state(engine, call, state):
    """It neither hangs nor starts anything; the run stays what it was."""
    with endless().limit(3).run(engine) as run:
        if state == "ended":
            list(run)
        elif state == "stopped":
            next(run)
        if state != "ended":
            run.stop()
        state = state.split()[0]
        before = children()
        with pytest.raises(rf.RunError, match=state):
            CALLS[call](run)
        assert run.state == state
        assert children() <= before
    assert run.state == state
    assert list(run) == []


def test_a_state_is_not_set_after_the_start(engine):
    """The error names the state that the run is in."""
    with endless().run(engine) as run:
        run.start()
        with pytest.raises(rf.RunError, match="running"):
            run.set_state({})
        assert len(list(islice(run, 3))) == 3


def test_a_run_can_be_looked_at_after_its_end(engine):
    """Statistics, ledger and workers stay where they were."""
    for stop in (False, True):
        with endless().limit(5).run(engine) as run:
            assert len(list(islice(run, 3 if stop else 9))) == (3 if stop else 5)
        assert run.stats().operator("limit(5)").items == (3 if stop else 5)
        assert run.ledger().balanced
        (line,) = run.ledger().balances()
        assert line.done["delivered"] == (3 if stop else 5)
        assert set(run.workers()) == {"worker-0", "worker-1"}


# -- stop, from anywhere ---------------------------------------------------------------------------


class Puller(threading.Thread):
    """Pulls one item, and says what became of it."""

    def __init__(self, run: rf.Run[Any]) -> None:
        super().__init__(daemon=True)
        self.run_ = run
        self.outcome: Any = None

    def run(self) -> None:
        try:
            self.outcome = next(self.run_)
        except BaseException as error:
            self.outcome = error


@pytest.mark.proc
@pytest.mark.parametrize("placement", ["process", "thread"])
def test_stop_from_another_thread_ends_the_pull_that_waits(bell: Bell, placement):
    """`next` raises StopIteration, though the actor it waits for never answers."""
    if placement == "process":
        flow = rf.from_actors(rf.Actors.of(Stuck, 1, bell.path)).gather_async()
    else:
        waiting = threading.Event()
        flow = flow_of([1]).for_each(Waits(bell.path, waiting), on="thread")
    with flow.run("local") as run:
        puller = Puller(run)
        puller.start()
        assert bell.rung()
        if placement == "thread":
            threading.Timer(0.2, waiting.set).start()  # a thread cannot be killed: it must end
        run.stop()
        puller.join(PATIENCE)
        assert not puller.is_alive(), "it waits for ever"
        assert isinstance(puller.outcome, StopIteration), repr(puller.outcome)
        assert run.state == "stopped"


class Waits:
    """A callable that is used as it is, and waits until it is let go."""

    def __init__(self, bell: str, event: threading.Event) -> None:
        self.bell = bell
        self.event = event

    def __reduce__(self) -> Any:
        name = f"waits {id(self.event)}"
        EVENTS[name] = self.event
        return _waits, (self.bell, name)

    def __deepcopy__(self, memo: Any) -> Waits:
        return self

    def __call__(self, item: int) -> int:
        ring(self.bell)
        self.event.wait(PATIENCE)
        return item


EVENTS: dict[str, threading.Event] = {}


def _waits(bell: str, name: str) -> Waits:
    return Waits(bell, EVENTS[name])


def test_stop_from_another_thread_ends_a_pull_that_works(engine, bell: Bell):
    """A flow that is busy for ever, and gives nothing, ends when it is stopped."""

    def nothing(item: Any) -> bool:
        if not heard:
            heard.append(True)
            ring(bell.path)
        return False

    heard: list[bool] = []
    with endless().filter(nothing).run(engine) as run:
        puller = Puller(run)
        puller.start()
        assert bell.rung()
        run.stop()
        puller.join(PATIENCE)
        assert not puller.is_alive(), "it works for ever"
        assert isinstance(puller.outcome, StopIteration), repr(puller.outcome)
        assert run.state == "stopped"


def test_stop_from_two_threads_at_once(engine):
    """Both return, and everything is gone when they do."""
    with endless().run(engine) as run:
        next(run)
        errors: list[BaseException] = []

        def stop() -> None:
            try:
                barrier.wait(PATIENCE)
                run.stop()
            except BaseException as error:
                errors.append(error)

        barrier = threading.Barrier(4)
        threads = [threading.Thread(target=stop, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        barrier.wait(PATIENCE)
        run.stop()
        for thread in threads:
            thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    assert run.state == "stopped"


def test_stop_from_inside_an_operator(engine):
    """The pull that runs the operator is the last one."""

    def stop(item: Any) -> Any:
        if item == 2:
            run.stop()
        return item

    with rf.from_range(9, 1).gather_async().for_each(stop).run(engine) as run:
        items = list(run)
        assert items in ([0, 1], [0, 1, 2])
        assert run.state == "stopped"


# -- what stop gives back --------------------------------------------------------------------------


class Large:
    """Gives arrays of two mebibytes, or sums those that it is told."""

    def __init__(self) -> None:
        self.total = 0.0

    def next(self) -> Any:
        return np.ones(2**18)

    def add(self, array: Any) -> None:
        self.total += float(array.sum())


def blocks() -> int:
    """How many blocks of shared memory without a name this process has open or mapped."""
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:" in line]
    opened = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            opened.append("memfd:" in os.readlink(f"/proc/self/fd/{fd}"))
    return len(mapped) + sum(opened)


@pytest.mark.proc
@pytest.mark.parametrize("how", ["stop", "end", "error"])
def test_everything_is_given_back_while_the_run_is_still_there(how):
    """Processes, descriptors, threads and shared memory, though somebody keeps the run."""
    gc.collect()
    before = descriptors(), blocks(), threading.active_count(), children()
    sinks = rf.Actors.of(Large, 1, name="sink")

    def send(item: Any, ctx: rf.Context) -> Any:
        ctx.send(sinks, "add", item)
        return item

    def explode(item: Any) -> Any:
        raise ValueError("too large")

    large = rf.from_actors(rf.Actors.of(Large, 2, name="large")).gather_async(num_async=4)
    flow = large.for_each(send).shuffle(6)
    if how == "end":
        flow = flow.limit(10)
    flow = flow.for_each(lambda array: float(array.sum()), on="thread")
    if how == "error":
        flow = flow.for_each(explode)
    with contextlib.ExitStack() as stack:
        run = flow.run("local")
        stack.callback(run.stop)
        if how == "stop":
            assert list(islice(run, 10)) == [2.0**18] * 10
            run.stop()
        elif how == "end":
            assert list(run) == [2.0**18] * 10
        else:
            with pytest.raises(ValueError, match="too large"), run:
                next(run)
        gc.collect()  # the run is still there, with all that it holds
        assert gone(list(children() - before[3]))
        assert descriptors() <= before[0]
        assert blocks() <= before[1]
        assert threading.active_count() <= before[2]
        assert run.state == ("ended" if how == "end" else "stopped")


@pytest.mark.proc
def test_arrays_that_the_user_kept_outlive_the_run():
    """What was given to the user is the user's."""
    with rf.from_actors(rf.Actors.of(Large, 1)).gather_async().run("local") as run:
        kept = list(islice(run, 3))
    assert [float(array.sum()) for array in kept] == [2.0**18] * 3


class Closes:
    """Writes its name to a folder when it is closed, then raises if it is the first."""

    def __init__(self, info: rf.ActorInfo, folder: str, error: type[BaseException]) -> None:
        self.info = info
        self.folder = folder
        self.error = error

    def next(self) -> str:
        return self.info.name

    def close(self) -> None:
        (Path(self.folder) / self.info.name).touch()
        if self.info.index == 0:
            raise self.error("cannot be closed")


@pytest.mark.parametrize("error", [ValueError, SystemExit])
@pytest.mark.parametrize("how", ["stop", "end"])
def test_an_actor_that_cannot_be_closed_keeps_nobody_else_open(place, error, how, tmp_path: Path):
    """Every actor is closed, whatever the first one raises, and nothing is left."""
    engine, placement = place
    actors = rf.Actors.of(Closes, 3, str(tmp_path), error, name="actor", placement=placement)
    flow = rf.from_actors(actors).gather_sync()
    before = threading.active_count()
    with (flow.limit(1) if how == "end" else flow).run(engine) as run:
        assert next(run) == ["actor-0", "actor-1", "actor-2"]
        with contextlib.suppress(rf.RillflowError, ValueError):
            list(run) if how == "end" else run.stop()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["actor-0", "actor-1", "actor-2"]
    assert run.state == ("ended" if how == "end" else "stopped")
    assert threading.active_count() <= before


def test_an_actor_that_was_removed_is_closed(place, tmp_path: Path):
    """Who leaves while the flow runs releases what it holds, as at the end."""
    engine, placement = place
    actors = rf.Actors.of(Closes, 2, str(tmp_path), ValueError, name="actor", placement=placement)
    with rf.from_actors(actors).gather_async().run(engine) as run:
        list(islice(run, 4))
        run.remove_worker("actor-1")
        while run.workers()["actor-1"]["status"] != "gone":
            next(run)
    assert (tmp_path / "actor-1").exists()


@pytest.mark.proc
def test_stopping_does_not_wait_for_messages_that_nobody_needs():
    """A slow sink with a full mailbox does not hold up the end."""
    sinks = rf.Actors.of(Sink, 1, 1000.0, name="sink")

    def send(item: Any, ctx: rf.Context) -> Any:
        ctx.send(sinks, "add", 1)
        return item

    with endless().for_each(send).run("local") as run:
        list(islice(run, 5))
    assert run.state == "stopped"
    assert run.ledger().balanced
