"""Conformance: what flows, where it came from, how much of it (C5 to C9, C12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from rillflow.engines.contract import Engine
from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently, Union
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.flows.sources import from_actors, from_items
from rillflow.graph.context import Context
from rillflow.graph.handles import Actors, Background, Queue
from rillflow.scheduler.run import Run
from rillflow.testing.actors import Answer, Replay, Store, Worker

MakeEngine = Callable[[], Engine]


def _one(name: str, method: str = "next", k: int = 1) -> Flow[Any]:
    return from_actors(Actors.of(Worker, 1, name=name), method).gather_async(num_async=k)


def check_provenance_survives(make_engine: MakeEngine) -> None:
    """C5: batch, combine, flatten and split unite the sources; none is lost, none is invented."""

    def sources(item: Any, ctx: Context) -> tuple[Any, frozenset[tuple[str, int]]]:
        return item, frozenset((source.actor, source.seq) for source in ctx.provenance)

    workers = Actors.of(Worker, 2, name="worker")
    batches = from_actors(workers, "named").gather_async(num_async=2).batch(3)
    collected = batches.combine(lambda batch: [batch]).flatten()
    left, right = collected.split()
    flow = Union(left.for_each(sources), right.for_each(sources), weights=[1, 1])
    with flow.run(make_engine()) as run:
        for _ in range(5):
            pieces = [next(run) for _ in range(6)]  # each child sees the three items of a batch
            items = [tuple(item) for item, _ in pieces]
            assert items[0::2] == items[1::2]
            assert {found for _, found in pieces} == {frozenset(items)}


def check_weights_reach_every_contributor(make_engine: MakeEngine) -> None:
    """C5: a message to the sources of a concatenation is handled by each of them."""

    def names(batch: list[tuple[str, int]]) -> list[str]:
        return sorted({name for name, _ in batch})

    workers = Actors.of(Worker, 2, name="worker")
    flow = from_actors(workers, "named").gather_async().batch(4).for_each(Answer()).for_each(names)
    newest = {"worker-0": None, "worker-1": None}
    with flow.run(make_engine()) as run:
        for number in range(1, 6):
            newest.update(dict.fromkeys(next(run), number))  # type: ignore[arg-type]
            assert {name: run.call(name, "last_told") for name in newest} == newest


def check_split_gives_every_item_to_each_child(make_engine: MakeEngine) -> None:
    """C6: both children see the same items in the same order, never far apart."""
    workers = Actors.of(Worker, 2, name="worker")
    one, two = from_actors(workers, "named").gather_async(num_async=2).split(buffer=2)
    slow = two.batch(2).flatten().for_each(lambda item: ("slow", item))
    flow = Union(one.for_each(lambda item: ("fast", item)), slow)
    seen: dict[str, list[Any]] = {"fast": [], "slow": []}
    with flow.run(make_engine()) as run:
        for _ in range(40):
            child, item = next(run)
            seen[child].append(item)
            assert abs(len(seen["fast"]) - len(seen["slow"])) <= 2 + 2  # the buffer, the batch
    shorter = min(map(len, seen.values()))
    assert shorter >= 15
    assert seen["fast"][:shorter] == seen["slow"][:shorter]
    assert len(set(seen["fast"])) == len(seen["fast"])


def check_union_weights_are_exact(make_engine: MakeEngine) -> None:
    """C7: 1 : 2 : 2.5 over 33 items is 6, 12 and 15, in an order that weights alone decide."""
    order = []
    names = ("a", "b", "c")
    flow = Union(*(_one(name, "named", 2) for name in names), weights=[1, 2, 2.5])
    with flow.run(make_engine()) as run:
        for _ in range(33):
            order.append(next(run)[0][0])
    assert Counter(order) == {"a": 6, "b": 12, "c": 15}
    assert order[:11] == order[11:22] == order[22:]


def check_rejecting_branch_starves_nobody(make_engine: MakeEngine) -> None:
    """C7: a filter that rejects everything uses its turns; steps are shared by stated units."""
    nothing = _one("a").filter(lambda _: False, name="nothing")
    flow = Union(nothing, _one("b"), weights=[1, 1], name="turns")
    with flow.run(make_engine()) as run:
        assert [next(run) for _ in range(10)] == list(range(10))
        (rejected,) = [line for line in run.ledger().balances() if line.dropped]
        assert 8 <= rejected.dropped["filtered by nothing"] <= 11
    small = _one("small").for_each(lambda _: 1)
    large = _one("large").for_each(lambda _: 5)
    steps = Union(small, large, weights=[1, 1], units=lambda steps: steps)
    with steps.run(make_engine()) as run:
        assert Counter(next(run) for _ in range(24)) == {1: 20, 5: 4}


def check_not_ready_is_invisible(make_engine: MakeEngine) -> None:
    """C8: a source that is not ready gives nothing, and is asked again by a message only."""
    replay = Actors.of(Replay, 1, 5, name="replay")
    stored = _one("worker").limit(8).for_each(Store(replay))
    replayed = from_actors(replay, "replay").gather_async(num_async=2)
    flow = Concurrently([stored, replayed], mode="async", output_indexes=[1])
    with flow.run(make_engine()) as run:
        asked, told = next(run)
        assert told >= 5, "an item was replayed too early"
        assert asked <= 2 * (told + 1), "a shard that is not ready must not be polled"
        assert all(len(next(run)) == 2 for _ in range(5))


def check_queues_are_bounded(make_engine: MakeEngine) -> None:
    """C9: a queue with a slow reader fills and its producer waits; nothing is lost."""
    learner: Background[Any, Any] = Background(
        lambda batch: batch,
        name="learner",
        placement="process",
        inqueue=Queue(capacity=2, name="in"),
        outqueue=Queue(capacity=1, name="out"),
    )
    feed = _one("worker", k=4).for_each(Enqueue(learner.inqueue))
    reader = Dequeue(learner.outqueue)
    flow = Concurrently([feed, reader], mode="async", output_indexes=[1])
    with flow.run(make_engine()) as run:
        for number in range(12):
            assert next(run) == number
            stats = run.stats()
            for name, capacity in (("enqueue(in)", 2), ("dequeue(out)", 1)):
                line = stats.operator(name)
                assert (line.depth <= capacity, line.capacity) == (True, capacity)
            assert stats.operator("background(learner)").in_flight <= 1
            assert run.workers()["worker-0"]["in_flight"] <= 4


def check_dropping_queue_counts(make_engine: MakeEngine) -> None:
    """C9: a queue that may drop says how many it dropped, and so does the ledger."""
    queue: Queue[int] = Queue(capacity=2, name="q", when_full="drop_oldest")
    numbers = from_items(range(11), 1, placement="driver").gather_async()
    feed = numbers.for_each(Enqueue(queue))
    flow = Concurrently([feed, Dequeue(queue)], weights=[100, 1], output_indexes=[1])
    with flow.run(make_engine()) as run:
        assert list(run) == [0, 9, 10]
        assert run.stats().operator("enqueue(q)").counters == {"dropped": 8}
        (line,) = run.ledger().balances()
        assert (line.produced, line.dropped) == (11, {"queue full: q": 8})


def _recount(run: Run[Any]) -> None:
    """The ledger balances, and what it says is held is found when everything is looked through."""
    ledger = run.ledger()
    assert ledger.balanced, str(ledger)
    held: Counter[str] = Counter()
    for source, account in ledger.accounts.items():
        stack = [account]
        while stack:
            one = stack.pop()
            held[source] += one.held
            stack.extend(one.children.values())
    assert run._scheduler.audit() == +held, str(ledger)


def check_ledger_balances_at_every_step(make_engine: MakeEngine) -> None:
    """C12: every request is in exactly one state, at every step and at the end."""
    workers = Actors.of(Worker, 2, name="worker")
    rollouts = from_actors(workers).filter(lambda n: n % 5 != 3).limit(30).gather_async(num_async=2)
    train, store = rollouts.split()
    learner: Background[Any, Any] = Background(
        lambda batch: sum(batch),
        name="learner",
        inqueue=Queue(capacity=2, name="in"),
        outqueue=Queue(capacity=2, name="out"),
    )
    feed = train.batch(3).for_each(Enqueue(learner.inqueue))
    doubled = store.combine(lambda n: [n, n] if n % 2 else [])
    flow = Concurrently([feed, doubled, Dequeue(learner.outqueue)], mode="async")
    with flow.run(make_engine()) as run:
        for _ in run:
            _recount(run)
        _recount(run)
        assert {line.produced for line in run.ledger().balances()} != {0}
