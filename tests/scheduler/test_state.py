"""A saved run goes on as the one that was saved, bit for bit, from any point, on `sim`."""

import itertools
from collections import Counter

import pytest

import rillflow as rf
from rillflow.engines.sim import Sim
from rillflow.testing import flow_of
from rillflow.testing.actors import Answer, Replay, Store, Total, Worker


def workers(count=2, method="report", name="worker"):
    return rf.from_actors(rf.Actors.of(Worker, count, name=name), method)


def async_flow(k=1):
    return workers().gather_async(num_async=k).for_each(Answer())


def sync_flow():
    group = rf.Actors.of(Worker, 2, name="worker")
    return rf.from_actors(group, "report").gather_sync().for_each(Answer(group)).flatten()


def pieces():
    return async_flow(2).for_each(lambda item: [item] * 3).flatten()


def batched():
    return workers().gather_async(num_async=2).batch(3).for_each(Answer())


def split_and_merged():
    one, two = workers().gather_async(num_async=2).for_each(Answer()).split(buffer=3)
    return rf.Union(one, two.batch(2).for_each(lambda pair: ("pair", pair)))


def weighted():
    left = workers(1, "named", "left").gather_async(num_async=3)
    right = workers(1, "named", "right").gather_async(num_async=3)
    return rf.Union(left, right.filter(lambda item: item[1] % 3), weights=[1, 2.5])


def inside_the_actor():
    return workers(2, "next").local_shuffle(3).batch(2).gather_async(num_async=2)


def shuffled():
    return workers(2, "named").gather_async(num_async=2).shuffle(4)


def repeated():
    return workers(2, "named").gather_async(num_async=2).repeat(3, after=2)


def totals():
    return workers(1, "next").gather_async().for_each(Total()).combine(lambda x: [x] * (x % 3))


def queued():
    queue = rf.Queue(capacity=3)
    feed = workers().gather_async(num_async=2).for_each(Answer()).for_each(rf.Enqueue(queue))
    return rf.Concurrently([feed, rf.Dequeue(queue).batch(2)], weights=[3, 1])


def learner():
    return workers(2, "next").gather_async(num_async=2).for_each(Total(), on="thread", capacity=2)


def replayed():
    replay = rf.Actors.of(Replay, 1, 4, name="replay")
    stored = workers(1).gather_async().for_each(Store(replay))
    return rf.Union(stored, rf.from_actors(replay, "replay").gather_async(num_async=2))


def spread():
    return workers(2, "next").for_each(lambda n: 10 * n, max_concurrency=2).gather_async()


FLOWS = [
    async_flow, sync_flow, pieces, batched, split_and_merged, weighted, inside_the_actor, shuffled,
    repeated, totals, queued, learner, replayed, spread,
]  # fmt: skip


@pytest.mark.parametrize("latency", [None, lambda rng: rng.random()], ids=["immediate", "random"])
@pytest.mark.parametrize("build", FLOWS, ids=lambda build: build.__name__)
def test_resumed_equals_saved(build, latency):
    """From every cut the resumed run gives the same items and the same ledger."""
    for cut in range(12):
        with build().run(Sim(latency=latency), seed=5) as run:
            list(itertools.islice(run, cut))
            state = run.get_state()
            rest, ledger = list(itertools.islice(run, 12)), str(run.ledger())
        with build().run(Sim(latency=latency), seed=5) as resumed:
            resumed.set_state(state)
            assert list(itertools.islice(resumed, 12)) == rest, f"after a cut at {cut}"
            assert str(resumed.ledger()) == ledger, f"after a cut at {cut}"
            assert resumed.ledger().balanced


@pytest.mark.parametrize("build", [async_flow, sync_flow, weighted])
def test_saving_loses_nothing(build):
    """Every worker's items come in order, none missing, none twice, with cuts in between."""
    numbers = {}
    with build().run(Sim(latency=lambda rng: rng.random())) as run:
        for n, item in enumerate(itertools.islice(run, 40)):
            numbers.setdefault(item[0], []).append(item[1])
            if n % 3 == 0:
                run.get_state()
    for name, given in numbers.items():
        expected = itertools.count()
        if name == "right-0":
            expected = (n for n in itertools.count() if n % 3)
        assert given == list(itertools.islice(expected, len(given)))


def test_finite_flow_resumed_at_every_point():
    """What came before the cut and what comes after it is the whole flow."""

    def build():
        queue = rf.Queue(capacity=2)
        feed = rf.from_range(9, 2).gather_async(num_async=2).for_each(rf.Enqueue(queue)).batch(2)
        return rf.Concurrently([feed.flatten(), rf.Dequeue(queue)])

    for cut in range(18):
        with build().run("sim") as run:
            before = list(itertools.islice(run, cut))
            state = run.get_state()
        with build().run("sim") as resumed:
            resumed.set_state(state)
            after = list(resumed)
        assert Counter(before + after) == Counter(dict.fromkeys(range(9), 2)), f"at {cut}"


def test_ended_shards_stay_ended():
    """A shard that had ended is not asked again after a restore."""

    def build():
        return rf.from_iterators([range(1), range(5)]).gather_sync()

    with build().run("sim") as run:
        assert [next(run), next(run)] == [[0, 0], [1]]
        state = run.get_state()
    with build().run("sim", trace=True) as resumed:
        resumed.set_state(state)
        assert list(resumed) == [[2], [3], [4]]
        assert not [e for e in resumed.trace if e[1] == "request" and e[2] == "iterators-0"]


def test_counters_are_kept():
    """Counters of operators and of the run go on from where they were."""

    def count(item, ctx):
        ctx.count("seen")
        return item

    def build():
        return flow_of([1, 2, 3, 4]).for_each(count, name="count")

    with build().run("sim") as run:
        next(run)
        next(run)
        state = run.get_state()
    with build().run("sim") as resumed:
        resumed.set_state(state)
        assert list(resumed) == [3, 4]
        assert resumed.stats().operator("count").counters == {"seen": 4}
        assert resumed.stats().operator("count").items == 4


def test_state_of_another_flow_is_refused():
    """A state says which operators it belongs to."""
    with flow_of([1, 2]).for_each(abs).run("sim") as run:
        next(run)
        state = run.get_state()
    with flow_of([1, 2]).run("sim") as other:
        other.set_state(state)
        with pytest.raises(rf.RunError, match=r"belongs to another flow.*for_each\(abs\)"):
            next(other)


def test_state_is_set_before_the_first_item():
    """A run that has begun cannot be given another past."""
    with flow_of([1, 2]).run("sim") as run:
        next(run)
        with pytest.raises(rf.RunError, match="before its first item"):
            run.set_state({})


def test_state_is_plain_data():
    """No references, tickets or handles: only what a safe file format can hold."""
    with pieces().run("sim") as run:
        list(itertools.islice(run, 4))
        state = run.get_state()

    def plain(value):
        if isinstance(value, dict):
            return all(isinstance(k, str) and plain(v) for k, v in value.items())
        if isinstance(value, list | tuple):
            return all(map(plain, value))
        return value is None or isinstance(value, bool | int | float | str | bytes)

    assert plain(state)
