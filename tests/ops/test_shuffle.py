"""local_shuffle in the actors, shuffle in the driver."""

import itertools

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import everything


def test_same_items_per_shard(engine):
    """Items change places within their shard and are all there."""
    shards = rf.from_range(8).local_shuffle(2).shards()
    assert sorted(everything(shards[0], engine)) == [0, 1, 2, 3]
    assert sorted(everything(shards[1])) == [4, 5, 6, 7]


def test_buffer_of_one_keeps_the_order():
    """With room for one item there is nothing to choose from."""
    assert everything(flow_of(list(range(10))).shuffle(1)) == list(range(10))
    flow = rf.from_range(10, 1).local_shuffle(1).gather_sync().flatten()
    assert everything(flow) == list(range(10))


def test_seeds_differ():
    """Two seeds of the run give two orders."""
    flow = rf.from_range(50, 10).local_shuffle(5).gather_sync().flatten()
    one, other = everything(flow, seed=1), everything(flow, seed=2)
    assert one != other
    assert sorted(one) == sorted(other) == list(range(50))


def test_same_seed_same_order():
    """The seed of the run decides the order, in the actors and in the driver."""
    parallel = rf.from_range(20, 2).local_shuffle(5).gather_sync().flatten()
    driver = flow_of(list(range(20))).shuffle(5)
    for flow in (parallel, driver):
        assert everything(flow, seed=3) == everything(flow, seed=3)


def test_stated_seed_wins():
    """A seed given to the operator holds whatever the seed of the run is."""
    flow = flow_of(list(range(20))).shuffle(5, seed=7)
    assert everything(flow, seed=1) == everything(flow, seed=2) != list(range(20))


def test_shards_differ():
    """Two shards with the same items are shuffled differently."""
    first, second = rf.from_iterators([range(30), range(30)]).local_shuffle(10).shards()
    assert everything(first) != everything(second)


def test_no_item_comes_before_the_buffer_is_full():
    """With a buffer of n the first item out is one of the first n in."""
    for seed in range(5):
        first = flow_of(list(range(100))).shuffle(10, seed=seed).take(1, engine="sim")[0]
        assert first < 10


def test_adjacent_pairs_are_broken_up():
    """After a shuffle with a large buffer adjacent items are nearly independent."""
    bits = [0] * 2000 + [1] * 2000
    out = everything(flow_of(bits).shuffle(2000, seed=0))
    assert sum(out) == 2000
    changes = sum(a != b for a, b in itertools.pairwise(out))
    assert 800 < changes < 2400  # one in sequence


@pytest.mark.parametrize("bad", [0, -3, None])
def test_buffer_is_checked(bad):
    """A buffer holds at least one item."""
    with pytest.raises(rf.BuildError, match="buffer"):
        flow_of([1]).shuffle(bad)
