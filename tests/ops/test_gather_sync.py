"""gather_sync and batch_across_shards: rounds."""

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import Count, everything


def test_every_item_once(engine):
    """Rounds hold one item of each shard, in shard order."""
    assert everything(rf.from_range(4).gather_sync(), engine) == [[0, 2], [1, 3]]


def test_batch_across_shards_is_the_same():
    """The name that RLlib Flow has for rounds."""
    flow = rf.from_range(4).batch(2).batch_across_shards()
    assert everything(flow) == [[[0, 1], [2, 3]]]


def test_of_batched_lists():
    """[[0,1],[2,3]] across shards is [[0,2],[1,3]]."""
    assert everything(rf.from_items([[0, 1], [2, 3]]).flatten().gather_sync()) == [[0, 2], [1, 3]]


def test_partial_rounds():
    """When a shard ends the others go on in shorter rounds."""
    flow = rf.from_iterators([range(3), range(1), range(2)]).gather_sync()
    assert everything(flow) == [[0, 0, 0], [1, 1], [2]]


def test_batch_of_rounds(engine):
    """Several rounds in one list are read like one: nobody sees a reference."""
    assert everything(rf.from_range(4).gather_sync().batch(2), engine) == [[[0, 2], [1, 3]]]


def test_take_counts_items_not_rounds():
    """`take` on a parallel flow flattens its rounds."""
    assert rf.from_range(6, 3).take(4, engine="sim") == [0, 2, 4, 1]


def test_is_a_barrier(engine):
    """A message sent for round t is seen by every item of round t+1, on every engine."""
    workers = rf.Actors.of(Count, 2, name="worker")

    class Publish(rf.Operator):
        def __init__(self, workers):
            self.workers = workers
            self.version = 0

        def __call__(self, items, ctx):
            self.version += 1
            ctx.send(self.workers, "set", self.version, version=self.version)
            return [weights for _, weights in items]

    flow = rf.from_actors(workers, "seen").gather_sync().for_each(Publish(workers))
    assert flow.take(4, engine=engine) == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_gathering_twice_is_refused():
    """A sequential flow is gathered already."""
    for gather in ("gather_sync", "gather_async", "batch_across_shards"):
        with pytest.raises(rf.BuildError, match="sequential already"):
            getattr(flow_of([1]), gather)()


def test_union_of_shards(engine):
    """A parallel union has the shards of both: a, x, b, y, c, z."""
    flow = rf.from_items("abc", 1).union(rf.from_items("xyz", 1))
    assert flow.num_shards() == 2
    assert flow.take(9, engine=engine) == ["a", "x", "b", "y", "c", "z"]


def test_union_keeps_each_sides_operators():
    """Transforms before the union stay with their side; those behind it apply to both."""
    left = rf.from_range(2, 1).for_each(lambda x: x + 10)
    right = rf.from_range(2, 1)
    flow = left.union(right).for_each(lambda x: -x)
    assert flow.take(9, engine="sim") == [-10, 0, -11, -1]


def test_union_of_different_kinds_is_refused():
    """A parallel flow is not joined with a sequential one."""
    with pytest.raises(rf.BuildError, match="Gather both sides first"):
        rf.from_range(2).union(flow_of([1]))
