"""gather_async: items as they are ready."""

import pytest

import rillflow as rf
from rillflow.engines.sim import Sim
from tests.ops.parts import Count, everything


def test_every_item_once(engine):
    """All items come, each once."""
    assert sorted(everything(rf.from_range(4).gather_async(), engine)) == [0, 1, 2, 3]


@pytest.mark.parametrize("k", [1, 4])
def test_every_item_once_with_requests_ahead(engine, k):
    """A hundred items, several requests in flight: each item exactly once."""
    assert sorted(everything(rf.from_range(100).gather_async(num_async=k), engine)) == list(
        range(100)
    )


@pytest.mark.parametrize("k", [1, 2, 4])
def test_order_within_a_shard_is_kept(k):
    """Items of one shard stay in order, however many requests are ahead."""
    items = everything(rf.from_range(20, 2).gather_async(num_async=k))
    assert [x for x in items if x < 10] == list(range(10))
    assert [x for x in items if x >= 10] == list(range(10, 20))


def test_fast_shard_is_not_held_up():
    """A fast worker gives ten items while a slow one gives one, in virtual time."""
    workers = rf.Actors.of(Count, 2, name="worker")
    flow = rf.from_actors(workers, "named").gather_async()
    with flow.run(Sim(latency={"worker-0": 1.0, "worker-1": 0.1})) as run:
        names = [next(run)[0] for _ in range(22)]
    assert names.count("worker-0") == 2
    assert names.count("worker-1") == 20


def test_slow_shard_is_last():
    """Ten fast and ten slow items: the last three are all slow."""
    flow = rf.from_iterators([["fast"] * 10, ["slow"] * 10]).gather_async()
    latency = {"iterators-0": 0.05, "iterators-1": 0.3}
    assert everything(flow, Sim(latency=latency))[-3:] == ["slow"] * 3


def test_pipelining_hides_the_way():
    """With two requests in flight the time on the way is no time lost."""

    def seconds(k):
        actors = rf.Actors.of(Count, 1, name="worker")
        flow = rf.from_actors(actors).gather_async(num_async=k).limit(10)
        with flow.run(Sim(latency=1.0, transport=0.5)) as run:
            list(run)
            return run.engine.now()

    assert seconds(1) == pytest.approx(20.0)
    assert seconds(2) == pytest.approx(11.0)


def test_lag_is_reported():
    """The statistics say how many weight messages an item missed."""
    workers = rf.Actors.of(Count, 1)

    def publish(item, ctx):
        ctx.send(ctx.sources, "set", item, version=item + 1)

    flow = rf.from_actors(workers).gather_async(num_async=3, name="gather").for_each(publish)
    with flow.run("sim") as run:
        for _ in range(10):
            next(run)
        assert run.stats().operator("gather").lag_max == 2


@pytest.mark.parametrize("bad", [0, -1, True, 1.5])
def test_num_async_is_checked(bad):
    """At least one request per shard."""
    with pytest.raises(rf.BuildError, match="num_async"):
        rf.from_range(4).gather_async(num_async=bad)
