"""Ends, turns, retries and restarts: what one branch or shard does is not done to another."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from typing import Any

import pytest

import rillflow as rf
from rillflow.testing import Fail, Kill, flow_of
from tests.edges.parts import Numbered

pytestmark = pytest.mark.timeout(20)


# -- a restarted source goes on --------------------------------------------------------------------

SOURCES = {
    "from_range": lambda **options: rf.from_range(12, 1, **options),
    "from_items": lambda **options: rf.from_items(list(range(12)), 1, **options),
}


@pytest.mark.parametrize("num_async", [1, 2])
@pytest.mark.parametrize("fault", ["killed", "failed"])
@pytest.mark.parametrize("source", SOURCES)
def test_a_restarted_source_repeats_no_item(source, fault, num_async):
    """What was under way is lost and counted; what was given before is not given again."""
    made = SOURCES[source](on_failure="restart")
    name = source.removeprefix("from_") + "-0"
    strike = Kill if fault == "killed" else Fail
    faults = [strike(actor=name, request=3), strike(actor=name, request=8)]
    with made.gather_async(num_async=num_async).run(rf.Sim(latency=1.0, faults=faults)) as run:
        items = list(run)
        (line,) = run.ledger().balances()
        assert run.workers()[name]["restarts"] == 2
    assert items == sorted(set(items)), "an item was given twice"
    assert set(items) < set(range(12))
    lost = sum(line.dropped.values())
    assert len(items) + lost == 12, "each item arrived, or was lost and counted"
    assert lost <= 2 * num_async


@pytest.mark.proc
def test_a_source_whose_process_is_killed_repeats_no_item():
    """The same with a real process, which dies while the driver looks at an item."""
    import os
    import signal

    flow = rf.from_range(40, 1, on_failure="restart").gather_async(num_async=2)
    with flow.run("local") as run:
        items = list(islice(run, 5))
        os.kill(run.workers()["range-0"]["pid"], signal.SIGKILL)
        items += list(run)
        (line,) = run.ledger().balances()
        assert run.workers()["range-0"]["restarts"] == 1
    assert items == sorted(set(items))
    assert len(items) + sum(line.dropped.values()) == 40
    assert set(line.dropped) <= {"worker_lost"}


def test_a_restarted_source_that_repeats_goes_on_in_its_round():
    """With `repeat` the rounds go on where they were, too."""
    flow = rf.from_range(4, 1, repeat=True, on_failure="restart").gather_async()
    faults = [Kill(actor="range-0", request=3)]
    with flow.run(rf.Sim(latency=1.0, faults=faults)) as run:
        assert list(islice(run, 9)) == [0, 1, 3, 0, 1, 2, 3, 0, 1]


class Asked:
    """Gives its incarnation, and how many requests its predecessors were given."""

    def __init__(self, info: rf.ActorInfo) -> None:
        self.info = info

    def next(self) -> tuple[int, int]:
        return self.info.incarnation, self.info.asked


@pytest.mark.parametrize("num_async", [1, 3])
def test_an_actor_knows_what_its_predecessors_were_asked(num_async):
    """Requests that were under way when they died are counted; those of this life are not."""
    actors = rf.Actors.of(Asked, 1, name="worker", on_failure="restart")
    faults = [Kill(actor="worker-0", request=4)]
    flow = rf.from_actors(actors).gather_async(num_async=num_async)
    with flow.run(rf.Sim(latency=1.0, faults=faults)) as run:
        items = list(islice(run, 6))
        (line,) = run.ledger().balances()
    assert items[:3] == [(0, 0)] * 3
    assert items[3:] == [(1, 3 + line.dropped["worker_lost"])] * 3
    assert 1 <= line.dropped["worker_lost"] <= num_async


# -- the end of one branch -------------------------------------------------------------------------


def test_the_other_branches_of_an_inner_merge_that_ends_are_let_go(engine):
    """Nobody reads them any more: a split they share with others need not wait for them."""
    one, two, three = rf.from_range(9, 1).gather_async().split(3)
    inner = rf.Concurrently([one.limit(2), two], output_indexes=[0])
    flow = rf.Union(inner.for_each(lambda n: ("inner", n)), three.for_each(lambda n: ("outer", n)))
    with flow.run(engine) as run:
        items = list(run)
        assert run.ledger().balanced
    assert [n for side, n in items if side == "inner"] == [0, 1]
    assert [n for side, n in items if side == "outer"] == list(range(9))


def test_a_queue_filled_by_an_inner_merge_that_ends_is_let_go(engine):
    """For the queue the producer has ended: its reader is not left waiting."""
    queue = rf.Queue(capacity=2, name="queue")
    numbers = rf.from_range(100, 1).gather_async()
    feed = numbers.for_each(rf.Enqueue(queue))
    inner = rf.Concurrently([flow_of([1, 2, 3]), feed], output_indexes=[0])
    flow = rf.Concurrently(
        [inner.for_each(lambda n: ("inner", n)), rf.Dequeue(queue).for_each(lambda n: ("read", n))]
    )
    with flow.run(engine) as run:
        items = list(run)
        assert run.ledger().balanced
    read = [n for side, n in items if side == "read"]
    assert read == list(range(len(read)))
    assert [n for side, n in items if side == "inner"] == [1, 2, 3]


def test_a_limit_behind_an_inner_merge_lets_all_branches_go(engine):
    """A merge that nobody reads any more lets go of every branch."""
    one, two = rf.from_range(30, 1).gather_async().split(2)
    inner = rf.Union(one, flow_of(list(range(100, 130)))).limit(3)
    with rf.Concurrently([inner, two], output_indexes=[1]).run(engine) as run:
        assert list(run) == list(range(30))
        assert run.ledger().balanced


def slowly(item: Any) -> Any:
    import time

    time.sleep(0.02)
    return ("slow", item)


@pytest.mark.parametrize("who", ["slow", "fast"])
def test_two_backgrounds_on_one_out_queue_both_count(engine, who):
    """The queue ends when both are done, whichever was made last."""
    out: rf.Queue[Any] = rf.Queue(capacity=4, name="out")
    fns = {"slow": slowly, "fast": lambda item: ("fast", item)}
    names = ["slow", "fast"] if who == "fast" else ["fast", "slow"]
    both = {name: rf.Background(fns[name], name=name, outqueue=out) for name in names}
    ports = flow_of(list(range(6))).split()
    feeds = [
        port.for_each(rf.Enqueue(both[name].inqueue))
        for port, name in zip(ports, names, strict=True)
    ]
    reader = rf.Dequeue(both[names[-1]].outqueue)
    flow = rf.Concurrently([*feeds, reader], mode="async", output_indexes=[2])
    with flow.run(rf.Sim(latency={"slow-0": 5.0}) if engine == "sim" else engine) as run:
        items = list(run)
        assert run.ledger().balanced
    assert Counter(items) == Counter((name, n) for name in names for n in range(6))


def test_two_backgrounds_on_one_in_queue_share_the_work(engine):
    """Each item is done by one of them, and none waits for ever."""
    work: rf.Queue[Any] = rf.Queue(capacity=4, name="work")
    both = [rf.Background(fn, name=f"learner {i}", inqueue=work, outqueue=rf.Queue(name=f"out {i}"))
            for i, fn in enumerate((lambda n: n, lambda n: n))]  # fmt: skip
    feed = flow_of(list(range(12))).for_each(rf.Enqueue(both[0].inqueue))
    readers = [rf.Dequeue(one.outqueue) for one in both]
    flow = rf.Concurrently([feed, *readers], mode="async", output_indexes=[1, 2])
    with flow.run(engine) as run:
        assert sorted(run) == list(range(12))
        assert run.ledger().balanced


# -- members that come and go in front of helpers --------------------------------------------------


def test_newcomers_in_front_of_a_repartition_are_all_gathered(engine):
    """Rounds over partitions end with their sources, also with more sources than at the start."""
    workers = rf.Actors.of(Numbered, 1, 3, name="worker")
    flow = rf.from_actors(workers).repartition(2).gather_sync().flatten()
    with flow.run(engine) as run:
        run.start()
        run.add_workers(2)
        items = list(run)
        assert run.ledger().balanced
    assert sorted(items) == [(f"worker-{i}", n) for i in range(3) for n in range(3)]


@pytest.mark.parametrize("slow", ["worker-0", "worker-1"])
def test_rounds_over_helpers_wait_for_the_slower_source(slow):
    """A fast source fills only what its own helpers need; the other one's get theirs."""
    workers = rf.Actors.of(Numbered, 2, name="worker")
    flow = rf.from_actors(workers).for_each(lambda x: x, max_concurrency=2).gather_sync()
    with flow.run(rf.Sim(latency={slow: 50.0})) as run:
        rounds = list(islice(run, 3))
        assert run.ledger().balanced
    for number, items in enumerate(rounds):
        expected = [(f"worker-{i}", 2 * number + n) for i in range(2) for n in range(2)]
        assert sorted(items) == expected


@pytest.mark.parametrize("gather", ["gather_sync", "gather_async"])
def test_nobody_waits_for_the_helpers_of_a_source_that_has_left(engine, gather):
    """A source with helpers of its own leaves; the others go on."""
    workers = rf.Actors.of(Numbered, 2, 40, name="worker")
    flow = getattr(rf.from_actors(workers).for_each(lambda x: x, max_concurrency=2), gather)()
    flow = flow.flatten() if gather == "gather_sync" else flow
    with flow.run(engine) as run:
        numbers = (n for name, n in run if name == "worker-1")
        mine = list(islice(numbers, 4))
        run.remove_worker("worker-0")
        mine += list(numbers)
        assert run.ledger().balanced
    assert sorted(mine) == list(range(40)), "items are missing"


# -- retries ---------------------------------------------------------------------------------------


class Half:
    """One of its methods works, the other never does."""

    def __init__(self) -> None:
        self.n = 0

    def works(self) -> int:
        self.n += 1
        return self.n

    def fails(self) -> int:
        raise ValueError("never")


def test_retries_are_counted_for_each_shard(engine):
    """A shard that never works gives up, though another shard of its actor works every time."""
    policy = rf.FailurePolicy(on_error="retry", max_retries=3)
    actors = rf.Actors.of(Half, 1, name="half", on_failure=policy)
    works = rf.from_actors(actors, "works").gather_async()
    fails = rf.from_actors(actors, "fails").gather_async()
    with rf.Union(works, fails).run(engine) as run:
        with pytest.raises(ValueError, match="never"):
            list(islice(run, 500))
        assert run.workers()["half-0"]["errors"] == 4
        lines = [line for line in run.ledger().balances() if line.dropped]
        assert [line.dropped for line in lines] == [{"retried": 3, "error": 1}]


# -- units -----------------------------------------------------------------------------------------


def two_sources() -> list[rf.Flow[Any]]:
    return [
        rf.from_actors(rf.Actors.of(Numbered, 1, name=name)).gather_async()
        for name in ("left", "right")
    ]


@pytest.mark.parametrize("merge", ["union", "concurrently"])
@pytest.mark.parametrize("cost", [-1, -0.5, math.nan, math.inf, -math.inf, "much", None])
def test_a_turn_costs_a_finite_number_of_at_least_nothing(engine, merge, cost):
    """Anything else would starve the siblings, and is an error of the merge that asked."""

    def units(item: Any) -> Any:
        return cost if item == ("left-0", 1) else 1

    if merge == "union":
        flow = rf.Union(*two_sources(), weights=[1, 1], units=units, name="merge")
    else:
        flow = rf.Concurrently(two_sources(), weights=[1, 1], units=units, name="merge")
    with flow.run(engine) as run:
        assert [next(run), next(run)] == [("left-0", 0), ("right-0", 0)]
        with pytest.raises(rf.OperatorError) as caught:
            list(islice(run, 2))
        assert "merge" in str(caught.value)
        assert Counter(name for name, _ in islice(run, 10)) == {"left-0": 5, "right-0": 5}
        assert run.ledger().balanced


def test_a_turn_that_costs_nothing_yields(engine):
    """A branch whose items are free takes no more turns than the others."""

    def units(item: Any) -> float:
        return 0.0 if item[0] == "left-0" else 1.0

    flow = rf.Union(*two_sources(), weights=[1, 1], units=units)
    with flow.run(engine) as run:
        order = [name for name, _ in islice(run, 20)]
    assert order.count("right-0") >= 9
    assert order.count("left-0") >= 9


def test_turns_that_all_cost_nothing_alternate(engine):
    """With nothing to weigh everybody gets a turn."""
    flow = rf.Union(*two_sources(), weights=[1, 5], units=lambda _: 0)
    with flow.run(engine) as run:
        order = [name for name, _ in islice(run, 20)]
    assert order.count("right-0") >= 9
    assert order.count("left-0") >= 9
