"""from_items, from_range, from_iterators, from_actors."""

import itertools

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import Count, Items, everything


def test_from_items_deals_in_turn(engine):
    """Item i goes to shard i mod n, so rounds give the list back in order."""
    assert rf.from_items([1, 2, 3, 4]).take(9, engine=engine) == [1, 2, 3, 4]


def test_from_items_has_two_shards_by_default():
    """Without a number there are two shards."""
    assert rf.from_items([1, 2, 3, 4]).num_shards() == 2


def test_from_items_first_item():
    """The first item of the list is the first item of the flow."""
    assert rf.from_items([1, 2, 3, 4]).take(1, engine="sim") == [1]


def test_from_items_uneven():
    """Shards that end early leave shorter rounds behind."""
    flow = rf.from_items([1, 2, 3, 4, 5], 3).gather_sync()
    assert everything(flow) == [[1, 2, 3], [4, 5]]


def test_from_items_more_shards_than_items():
    """A shard without items takes no part in any round."""
    assert everything(rf.from_items(["a"], 3).gather_sync()) == [["a"]]


def test_from_items_of_nothing():
    """A flow of no items ends at once."""
    assert rf.from_items([]).take(1, engine="sim") == []


def test_from_items_repeats():
    """With repeat the list begins again: eight items of four are two cycles."""
    flow = rf.from_items([1, 2, 3, 4], repeat=True)
    assert flow.take(8, engine="sim") == [1, 2, 3, 4] * 2


def test_repeat_of_nothing_ends():
    """Repeating an empty shard ends instead of searching for ever."""
    assert rf.from_items([], 1, repeat=True).take(3, engine="sim") == []


def test_from_range_is_cut_into_slices(engine):
    """Each shard has a contiguous slice."""
    assert rf.from_range(4).take(9, engine=engine) == [0, 2, 1, 3]


@pytest.mark.parametrize(
    ("n", "shards", "slices"),
    [(7, 3, [[0, 1], [2, 3], [4, 5, 6]]), (2, 3, [[], [], [0, 1]]), (0, 2, [[], []])],
)
def test_from_range_last_shard_takes_the_remainder(n, shards, slices):
    """Slices are equal, and what is left over belongs to the last."""
    flows = rf.from_range(n, shards).shards()
    assert [everything(flow) for flow in flows] == slices


def test_from_range_repeats():
    """With repeat every shard begins its own slice again."""
    assert rf.from_range(4, repeat=True).take(8, engine="sim") == [0, 2, 1, 3, 0, 2, 1, 3]


def test_from_iterators(engine):
    """One shard per iterable."""
    assert rf.from_iterators([range(2), range(2)]).take(9, engine=engine) == [0, 0, 1, 1]


def test_from_iterators_of_functions(engine):
    """A function that returns a generator is called in the actor: generators cannot travel."""

    def letters():
        yield from "ab"

    flow = rf.from_iterators([letters, lambda: iter("xy")])
    assert flow.take(9, engine=engine) == ["a", "x", "b", "y"]


def test_from_iterators_endless():
    """An endless iterator is fine: only what is asked for is made."""
    assert rf.from_iterators([itertools.count]).take(3, engine="sim") == [0, 1, 2]


def test_from_actors(engine):
    """Two actors with lists of their own take turns."""
    actors = rf.Actors.of(Items, 2, each=[([1, 2],), ([3, 4],)])
    assert rf.from_actors(actors).take(9, engine=engine) == [1, 3, 2, 4]


def test_from_actors_by_method():
    """Any method can be the source."""
    actors = rf.Actors.of(Count, 2, name="worker")
    flow = rf.from_actors(actors, "named").gather_sync()
    assert flow.take(2, engine="sim") == [
        [("worker-0", 0), ("worker-1", 0)],
        [("worker-0", 1), ("worker-1", 1)],
    ]


def test_each_run_starts_from_fresh_actors():
    """Two runs of one flow give the same items: actors are made anew."""
    flow = rf.from_actors(rf.Actors.of(Count, 1)).gather_sync().flatten()
    assert flow.take(3, engine="sim") == flow.take(3, engine="sim") == [0, 1, 2]


def test_flow_of():
    """A list as a flow, in order."""
    assert everything(flow_of([3, 1, 2])) == [3, 1, 2]


def test_flow_of_starts_no_process():
    """A list in the driver needs no process, on any engine."""
    with flow_of([1, 2]).run("local") as run:
        assert next(run) == 1
        assert [worker["pid"] for worker in run.workers().values()] == [None]


def test_names_show_the_chain():
    """The picture of a flow names its source and its operators in order."""
    flow = rf.from_range(4).for_each(abs).filter(bool).batch(2).gather_sync()
    text = flow.explain()
    order = ["from_range(4)", "for_each(abs)", "filter(bool)", "batch(2)", "gather_sync"]
    assert sorted(order, key=text.index) in (order, order[::-1])


def test_parallel_flow_must_be_gathered():
    """Iterating shards without saying how is refused, with the way out in the message."""
    with pytest.raises(TypeError, match="gather_sync"):
        iter(rf.from_range(4))


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "2"])
def test_number_of_shards_is_checked(bad):
    """A wrong number of shards is refused when the flow is written."""
    with pytest.raises(rf.BuildError, match="num_shards"):
        rf.from_items([1], bad)


def test_from_actors_wants_the_method_to_exist():
    """A class without the source method is refused when the flow is written."""
    with pytest.raises(rf.BuildError, match="has no method 'sample'"):
        rf.from_actors(rf.Actors.of(Items, 1, []), "sample")
