"""select_shards, get_shard, shards."""

import pytest

import rillflow as rf
from tests.ops.parts import double, everything


def test_two_of_four(engine):
    """Of four items on four shards, {0, 2} gives 1 and 3; {1, 3} gives 2 and 4."""
    flow = rf.from_items([1, 2, 3, 4], 4)
    assert flow.select_shards([0, 2]).take(9, engine=engine) == [1, 3]
    assert flow.select_shards([1, 3]).take(9, engine="sim") == [2, 4]


def test_order_is_the_users():
    """Shards come in the order in which they are named."""
    assert rf.from_items([1, 2, 3, 4], 4).select_shards([3, 0]).take(2, engine="sim") == [4, 1]


def test_keeps_operators():
    """Transforms before and after the selection apply."""
    flow = rf.from_range(6, 3).for_each(double).select_shards([2]).for_each(lambda x: x + 1)
    assert flow.take(9, engine="sim") == [9, 11]


def test_get_shard(engine):
    """Each shard by itself, in order."""
    flow = rf.from_range(6, 3)
    assert everything(flow.get_shard(1), engine) == [2, 3]
    assert [everything(shard) for shard in flow.shards()] == [[0, 1], [2, 3], [4, 5]]


def test_shards_in_one_flow():
    """The shards of one flow may be merged again."""
    assert everything(rf.Union(*rf.from_range(6, 3).shards(), weights=[1, 1, 1])) == [
        0,
        2,
        4,
        1,
        3,
        5,
    ]


def test_of_a_union():
    """Selecting works behind a union of shards."""
    flow = rf.from_items("ab").union(rf.from_items("xy")).select_shards([1, 2])
    assert flow.take(9, engine="sim") == ["b", "x"]


@pytest.mark.parametrize("bad", [[], [2], [-1], [0, 0]])
def test_indexes_are_checked(bad):
    """Indexes exist and differ, and there is at least one."""
    with pytest.raises(rf.BuildError, match="different indexes from 0 to 1"):
        rf.from_range(4).select_shards(bad)


def test_reading_a_shard_twice_is_refused():
    """Two readers of one shard would take items from each other."""
    flow = rf.from_range(4)
    both = rf.Union(flow.get_shard(0), flow.select_shards([0, 1]).gather_async())
    assert any("a stream has one reader" in problem for problem in both.check())
