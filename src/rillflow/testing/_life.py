"""Conformance: joining, leaving, saving, ending; and how data travels (C13 to C15, C17, C18)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from rillflow.engines.contract import Engine
from rillflow.flows.flow import Flow
from rillflow.flows.merge import Union
from rillflow.flows.sources import from_actors, from_items, from_range
from rillflow.graph.context import Context
from rillflow.graph.handles import Actors
from rillflow.testing.actors import (
    Answer,
    Arrays,
    Forward,
    Parcel,
    Recipient,
    RunsAFlow,
    Sender,
    Total,
    Worker,
)

MakeEngine = Callable[[], Engine]


def check_workers_join_and_leave(make_engine: MakeEngine) -> None:
    """C13: a newcomer has the newest weights at once; who leaves delivers what it was asked for."""
    workers = Actors.of(Worker, 2, name="worker")
    flow = from_actors(workers, "report").gather_async(num_async=2)
    numbers: dict[str, list[int]] = {}
    with flow.run(make_engine()) as run:

        def pull() -> tuple[str, list[Any]]:
            name, number, told = next(run)
            numbers.setdefault(name, []).append(number)
            return name, told

        pull()
        run.send(workers, "tell", "weights", version=1)
        (newcomer,) = run.add_workers()
        told = next(told for name, told in iter(pull, None) if name == newcomer)
        assert told == ["weights"], "a worker that joins begins with the newest weights"
        run.remove_worker("worker-0")
        while run.workers()["worker-0"]["status"] != "gone":
            pull()
        after = [pull()[0] for _ in range(20)]
        assert after.count("worker-0") <= 2, "a removed worker is not asked again"
        assert "worker-0" not in after[8:], "what it had made comes in its turn"
        assert run.ledger().balanced
    for name, given in numbers.items():
        assert given == list(range(len(given))), f"items of {name} were lost: {given}"


def check_resumed_run_equals_uninterrupted(make_engine: MakeEngine) -> None:
    """C14: counters, buffers, credits and actors go on from a saved state as if uninterrupted."""

    def build() -> Flow[Any]:
        workers = Actors.of(Worker, 2, name="worker")
        totals = from_actors(workers).gather_sync().flatten().for_each(Total(), name="total")
        numbers = from_items(range(100), 1, placement="driver").gather_sync().flatten()
        return Union(totals.batch(3), numbers.shuffle(4), weights=[1, 2.5])

    with build().run(make_engine(), seed=7) as run:
        first = list(islice(run, 17))
        state = run.get_state()
        rest, ledger = list(islice(run, 20)), str(run.ledger())
        items = {line.name: line.items for line in run.stats().operators}
    with build().run(make_engine(), seed=7) as resumed:
        resumed.set_state(state)
        assert list(islice(resumed, 20)) == rest
        assert str(resumed.ledger()) == ledger
        assert {line.name: line.items for line in resumed.stats().operators} == items
    with build().run(make_engine(), seed=7) as other:
        assert list(islice(other, 17)) == first, "a run that was not saved gives the same items"


def check_resumed_asynchronous_run_loses_nothing(make_engine: MakeEngine) -> None:
    """C14: no item is lost or made twice at the cut; on `sim` the rest is equal bit for bit."""

    def build() -> Flow[Any]:
        workers = Actors.of(Worker, 2, name="worker")
        gather = from_actors(workers, "report").gather_async(num_async=2).for_each(Answer())
        return gather.for_each(lambda item: [item, item]).flatten().batch(3).flatten()

    engine = make_engine()
    with build().run(engine, seed=3) as run:
        first = list(islice(run, 14))
        state = run.get_state()
        rest, ledger = list(islice(run, 31)), str(run.ledger())
    with build().run(make_engine(), seed=3) as resumed:
        resumed.set_state(state)
        again = list(islice(resumed, 31))
        assert resumed.ledger().balanced
        if engine.name == "sim":
            assert again == rest
            assert str(resumed.ledger()) == ledger
    for later in (rest, again):
        for worker in ("worker-0", "worker-1"):
            given = [number for name, number, _ in first + later if name == worker]
            twice = sorted([*range(len(given)), *range(len(given))])[: len(given)]
            assert given == twice, f"items of {worker} were lost or repeated: {given}"


def check_arrays_are_read_only(make_engine: MakeEngine) -> None:
    """C15: an array that came from an actor, or was sent to one, cannot be written to."""

    def send_back(item: tuple[Any, list[bool]], ctx: Context) -> tuple[bool, list[bool]]:
        array, told = item
        ctx.send(ctx.sources, "tell", array)
        return bool(array.flags.writeable), told

    arrays = from_actors(Actors.of(Arrays, 1, name="arrays")).gather_async()
    with arrays.for_each(send_back).run(make_engine()) as run:
        answers = [next(run) for _ in range(4)]
    assert [writeable for writeable, _ in answers] == [False] * 4
    assert answers[-1][1] == [False] * 3


def check_references_are_forwarded_unread(make_engine: MakeEngine) -> None:
    """C15: from actor to actor a value is read once, where it arrives; not in the driver."""
    recipients = Actors.of(Recipient, 1, name="recipient")
    senders = from_actors(Actors.of(Sender, 1, name="sender")).gather_async()
    stored = senders.for_each(Forward(recipients)).limit(3).filter(_never)
    flow: Flow[Any] = Union(stored, from_actors(recipients).gather_async())
    with flow.run(make_engine()) as run:
        reads: list[int] = []
        while len(reads) < 3:
            reads = next(run)
    assert reads == [1, 1, 1]


class _Never:
    """Rejects everything, without reading it."""

    takes_ref = True

    def __call__(self, item: Any) -> bool:
        return False


_never = _Never()


def check_values_are_serialised_once(make_engine: MakeEngine) -> None:
    """C15: what is sent to many actors is serialised once, by `put` or by sending to a group."""
    recipients = Actors.of(Recipient, 2, name="recipient")

    def send(item: int, ctx: Context) -> int:
        if item % 2:
            ctx.send(recipients, "tell", Parcel(0, 20_000))
        else:
            ref = ctx.put(Parcel(0, 10))
            for recipient in recipients:
                ctx.send(recipient, "tell", ref)
        return item

    numbers = from_items(range(4), 1, placement="driver").gather_async().for_each(send)
    silent = from_actors(recipients).gather_sync().filter(lambda _: False)
    before = Parcel.packed
    with Union(numbers, silent).run(make_engine()) as run:
        assert [next(run) for _ in range(4)] == [0, 1, 2, 3]
        assert Parcel.packed - before == 4
        assert run.call("recipient-1", "next") == [1, 1, 1, 1]


def check_stop_leaves_nothing_behind(make_engine: MakeEngine) -> None:
    """C17: after `stop`, with requests on their way, no process of the run is alive."""
    workers = Actors.of(Worker, 2, name="worker")
    run = from_actors(workers).gather_async(num_async=4).run(make_engine())
    for _ in range(3):
        next(run)
    own = {run.call(worker, "pid") for worker in workers} - {os.getpid()}
    shown = {worker["pid"] for worker in run.workers().values()} - {None}
    assert own <= shown or not shown
    run.stop()
    run.stop()  # safe to call twice
    assert list(run) == []
    deadline = time.monotonic() + 30.0
    while alive := {pid for pid in own if _alive(pid)}:
        assert time.monotonic() < deadline, f"processes left behind: {alive}"
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's by now
        return False
    return True


def check_flows_nest(make_engine: MakeEngine) -> None:
    """C18: actors run flows of their own, and the outer flow gathers what they give."""
    inner = from_range(4).gather_sync().flatten().for_each(lambda n: 10 * n)
    outer = from_actors(Actors.of(RunsAFlow, 2, inner, name="inner")).gather_sync()
    with outer.run(make_engine()) as run:
        assert list(run) == [[0, 0], [20, 20], [10, 10], [30, 30]]
