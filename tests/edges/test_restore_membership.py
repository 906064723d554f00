"""A state knows its members: it restores after joining, leaving and shrinking, and elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

import rillflow as rf
from rillflow.testing import Kill
from rillflow.testing.actors import Worker
from tests.edges.parts import Numbered, Publish, Weighted, numbers_of_each

pytestmark = pytest.mark.timeout(30)

Change = Callable[[rf.Run[Any]], list[Any]]
"""changes the members of a run; the items that it pulled meanwhile"""


def numbered(count: int = 2) -> rf.Flow[Any]:
    workers = rf.Actors.of(Numbered, count, name="worker")
    return rf.from_actors(workers).gather_async(num_async=2)


def reported(count: int = 2) -> rf.Flow[Any]:
    """Items say which weights their worker had; everybody is told the newest."""
    workers = rf.Actors.of(Weighted, count, name="worker")
    return rf.from_actors(workers).gather_async().for_each(Publish(workers))


def answered(count: int = 2) -> rf.Flow[Any]:
    """The same with workers that can be saved, and rounds."""
    workers = rf.Actors.of(Told, count, name="worker")
    rounds = rf.from_actors(workers, "report").gather_sync(name="rounds")
    return rounds.for_each(Publish(workers)).flatten()


class Told(Worker):
    """A worker whose weights are the last thing it was told."""

    def set_weights(self, weights: int) -> None:
        self.tell(weights)


def batched(count: int = 2) -> rf.Flow[Any]:
    workers = rf.Actors.of(Numbered, count, name="worker")
    return rf.from_actors(workers).batch(2).gather_async(num_async=2).flatten()


def shared(count: int = 2) -> rf.Flow[Any]:
    """Two gathers over one group, and a split behind one of them."""
    workers = rf.Actors.of(Numbered, count, name="worker")
    one, two = rf.from_actors(workers).gather_async().split()
    return rf.Union(one, two, rf.from_actors(workers, "born").gather_async(num_async=2))


FLOWS = [numbered, reported, answered, batched, shared]


def add(run: rf.Run[Any]) -> list[Any]:
    assert run.add_workers(2) == ["worker-2", "worker-3"]
    return []


def remove(run: rf.Run[Any]) -> list[Any]:
    run.remove_worker("worker-0")
    return []


def replace(run: rf.Run[Any]) -> list[Any]:
    run.add_workers()
    items = list(islice(run, 3))
    run.remove_worker("worker-0")
    return items


def add_and_remove_the_newcomer(run: rf.Run[Any]) -> list[Any]:
    run.add_workers()
    items = list(islice(run, 3))
    run.remove_worker("worker-2")
    items += list(islice(run, 9))
    run.add_workers()
    return items


CHANGES = [add, remove, replace, add_and_remove_the_newcomer]


def live(run: rf.Run[Any]) -> list[str]:
    """The actors that are there."""
    return sorted(name for name, worker in run.workers().items() if worker["status"] == "live")


@pytest.mark.parametrize("settled", [False, True], ids=["at once", "settled"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("build", FLOWS, ids=lambda build: build.__name__)
def test_a_state_after_a_change_of_members_restores_bit_for_bit(build, change: Change, settled):
    """The flow is built as before; the restored run has the members of the saved one."""

    def latency(rng: Any) -> float:
        return float(rng.random())

    with build().run(rf.Sim(latency=latency), seed=3) as run:
        list(islice(run, 7))
        change(run)
        if settled:
            list(islice(run, 11))
        state = copy.deepcopy(run.get_state())
        members = live(run)
        rest, ledger = list(islice(run, 30)), str(run.ledger())
    with build().run(rf.Sim(latency=latency), seed=3) as resumed:
        resumed.set_state(state)
        resumed.start()
        assert live(resumed) == members
        assert list(islice(resumed, 30)) == rest
        assert str(resumed.ledger()) == ledger
        assert resumed.ledger().balanced


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_items_of_a_newcomer_that_has_left_wait_for_the_restored_run_too(cut):
    """What a worker delivered before it left is the driver's, and is in the state."""

    def build() -> rf.Flow[Any]:
        workers = rf.Actors.of(Numbered, 1, 4, name="worker")
        return rf.from_actors(workers).gather_async(num_async=2)

    with build().run("sim") as run:
        run.start()
        run.add_workers()
        run.remove_worker("worker-1")
        list(islice(run, cut))
        state = copy.deepcopy(run.get_state())
        rest, ledger = list(run), str(run.ledger())
    with build().run("sim") as resumed:
        resumed.set_state(state)
        assert list(resumed) == rest
        assert str(resumed.ledger()) == ledger


def check_whole(items: list[Any], *names: str) -> None:
    """Of each of these workers every item is there, once and in order."""
    found = numbers_of_each(items)
    for name in names:
        given = found.get(name, [])
        assert given == list(range(len(given))), f"items of {name} were lost or made twice"


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_no_item_is_lost_or_made_twice_at_the_cut(engine, change: Change):
    """On every engine what came before and what comes after is all that each worker made."""
    with batched().run(engine) as run:
        items = list(islice(run, 8))
        items += change(run)
        items += list(islice(run, 12))
        state = copy.deepcopy(run.get_state())
        members = live(run)
    with batched().run(engine) as resumed:
        resumed.set_state(state)
        resumed.start()
        assert live(resumed) == members
        items += list(islice(resumed, 40))
        assert resumed.ledger().balanced
    check_whole(items, *numbers_of_each(items))


def test_a_state_after_shrinking_restores(engine):
    """Who was lost stays away; those who are left go on where they were."""
    faults = [Kill(actor="worker-0", request=4)]

    def build() -> rf.Flow[Any]:
        workers = rf.Actors.of(Dying, 3, engine == "local", name="worker", on_failure="shrink")
        return rf.from_actors(workers).gather_async()

    with build().run(rf.Sim(latency=1.0, faults=faults) if engine == "sim" else engine) as run:
        items = [next(run)]
        while run.workers()["worker-0"]["status"] != "gone":
            items.append(next(run))
        state = copy.deepcopy(run.get_state())
        rest = list(islice(run, 20))
    with build().run(rf.Sim(latency=1.0) if engine == "sim" else engine) as resumed:
        resumed.set_state(state)
        resumed.start()
        assert live(resumed) == ["worker-1", "worker-2"]
        after = list(islice(resumed, 20))
        assert resumed.ledger().balanced
        (line,) = resumed.ledger().balances()
        assert line.dropped == {"worker_lost": 1}
    if engine == "sim":
        assert after == rest
    check_whole(items + after, "worker-1", "worker-2")


class Dying(Numbered):
    """The first of the group kills its own process at its fourth item, if it has one."""

    def __init__(self, info: rf.ActorInfo, dies: bool) -> None:
        super().__init__(info)
        self.dies = dies and info.index == 0

    def next(self) -> tuple[str, int]:
        item = super().next()
        if self.dies and item[1] == 3:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
        return item


def test_a_state_after_a_restart_restores_the_incarnation():
    """A request is named by its worker, incarnation and number, and no name is used twice."""

    def build() -> rf.Flow[Any]:
        workers = rf.Actors.of(Numbered, 2, name="worker", on_failure="restart")
        return rf.from_actors(workers, "born").gather_async().for_each(named)

    def named(item: Any, ctx: rf.Context) -> Any:
        return item, [(s.actor, s.incarnation, s.seq) for s in ctx.provenance]

    faults = [Kill(actor="worker-0", request=3)]
    with build().run(rf.Sim(latency=1.0, faults=faults), seed=1) as run:
        before = list(islice(run, 12))
        assert run.workers()["worker-0"]["incarnation"] == 1
        state = copy.deepcopy(run.get_state())
        rest = list(islice(run, 12))
    with build().run(rf.Sim(latency=1.0), seed=1) as resumed:
        resumed.set_state(state)
        assert list(islice(resumed, 12)) == rest
        assert resumed.workers()["worker-0"]["incarnation"] == 1
        names = [tuple(name) for _, (name,) in before + rest]
        assert len(set(names)) == len(names)


# -- another count of actors -----------------------------------------------------------------------


def test_a_state_restores_into_a_smaller_flow(engine):
    """Workers that exist in both go on where they were; the others' are not waited for."""
    with numbered(3).run(engine) as run:
        items = list(islice(run, 12))
        state = copy.deepcopy(run.get_state())
    with numbered(2).run(engine) as resumed:
        resumed.set_state(state)
        resumed.start()
        assert live(resumed) == ["worker-0", "worker-1"]
        after = list(islice(resumed, 30))
        assert resumed.ledger().balanced
        assert "worker-2" not in numbers_of_each(after[10:])
    check_whole(items + after, "worker-0", "worker-1")


def test_a_state_restores_into_a_larger_flow(engine):
    """Newcomers begin afresh with the newest weights; the others go on where they were."""

    def build(count: int) -> rf.Flow[Any]:
        workers = rf.Actors.of(Told, count, name="worker")
        return rf.from_actors(workers, "report").gather_async().for_each(Publish(workers))

    with build(2).run(engine) as run:
        items = list(islice(run, 9))
        state = copy.deepcopy(run.get_state())
    with build(4).run(engine) as resumed:
        resumed.set_state(state)
        first: dict[str, Any] = {}
        while len(first) < 4:
            items.append(next(resumed))
            name, number, told = items[-1]
            first.setdefault(name, (number, told))
        assert live(resumed) == ["worker-0", "worker-1", "worker-2", "worker-3"]
        assert resumed.ledger().balanced
    for newcomer in ("worker-2", "worker-3"):
        number, told = first[newcomer]
        assert number == 0
        assert told[0] >= 9, "the newest weights of the saved run come first"
        assert told == sorted(told)
    check_whole([(name, number) for name, number, _ in items], "worker-0", "worker-1")


def test_what_a_departed_worker_held_is_dropped_and_counted():
    """Items inside an actor that the new flow does not have are in the ledger as dropped."""

    def build(count: int) -> rf.Flow[Any]:
        workers = rf.Actors.of(Numbered, count, name="worker")
        return rf.from_actors(workers).batch(4).gather_async()

    latency = {"worker-0": 1.0, "worker-1": 1.0, "worker-2": 1.5}
    with build(3).run(rf.Sim(latency=latency)) as run:
        next(run)
        state = copy.deepcopy(run.get_state())
        (line,) = run.ledger().balances()
        assert line.held >= 3, "of worker-2 there are items inside"
    with build(2).run(rf.Sim(latency=latency)) as resumed:
        resumed.set_state(state)
        after = list(islice(resumed, 9))
        (line,) = resumed.ledger().balances()
        assert resumed.ledger().balanced
        assert sum(line.dropped.values()) == 3
        assert {name for batch in after for name, _ in batch} == {"worker-0", "worker-1"}


def test_a_state_of_members_that_joined_restores_into_a_flow_built_with_them():
    """A flow that is built with the newcomers from the start has the same members."""
    with numbered(2).run("sim") as run:
        list(islice(run, 5))
        run.add_workers()
        list(islice(run, 10))
        state = copy.deepcopy(run.get_state())
        rest = list(islice(run, 20))
    with numbered(3).run("sim") as resumed:
        resumed.set_state(state)
        assert list(islice(resumed, 20)) == rest
