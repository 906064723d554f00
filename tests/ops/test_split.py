"""split and duplicate."""

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import Count, everything


def tagged(tag):
    return lambda x: (tag, x)


def test_every_child_sees_every_item_once(engine):
    """Both children get all items, in order."""
    one, two = rf.from_range(6).gather_sync().flatten().split()
    out = everything(rf.Union(one.for_each(tagged(1)), two.for_each(tagged(2))), engine)
    items = [0, 3, 1, 4, 2, 5]
    assert [x for tag, x in out if tag == 1] == items
    assert [x for tag, x in out if tag == 2] == items


def test_three_children():
    """There may be more than two."""
    children = flow_of([1, 2]).split(3)
    out = everything(rf.Union(*(child.for_each(tagged(i)) for i, child in enumerate(children))))
    assert sorted(out) == sorted((i, x) for i in range(3) for x in (1, 2))


@pytest.mark.parametrize(("buffer", "skew"), [(1, 1), (3, 3)])
def test_skew_is_bounded(buffer, skew):
    """No child runs more than `buffer` items ahead, and it may run that far ahead."""
    ahead, behind = flow_of(list(range(40))).split(2, buffer=buffer)
    flow = rf.Union(ahead.for_each(tagged(1)), behind.batch(4).flatten().for_each(tagged(2)))
    counts = {1: 0, 2: 0}
    seen = 0
    for tag, _ in everything(flow):
        counts[tag] += 1
        seen = max(seen, counts[1] - counts[2])
    # what waits in the batch has been taken by the child already
    assert seen <= skew + 4
    assert counts == {1: 40, 2: 40}


def test_split_of_a_split():
    """Children may be split again."""
    one, rest = flow_of([1, 2]).split()
    two, three = rest.split()
    out = everything(
        rf.Union(one.for_each(tagged(1)), two.for_each(tagged(2)), three.for_each(tagged(3)))
    )
    assert sorted(out) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]


def test_different_speeds_through_filters():
    """A child that keeps one in three and a child that keeps all see the same items."""
    some, every = flow_of(list(range(9))).split()
    flow = rf.Union(some.filter(lambda x: x % 3 == 0).for_each(tagged("some")), every)
    out = everything(flow)
    assert [x for x in out if isinstance(x, int)] == list(range(9))
    assert [x for x in out if not isinstance(x, int)] == [("some", 0), ("some", 3), ("some", 6)]


def test_child_for_its_effects_only():
    """A child that is not part of the output still takes every item."""
    seen = []
    one, two = flow_of([1, 2, 3]).split()
    flow = rf.Concurrently([one.for_each(seen.append), two], output_indexes=[1])
    assert everything(flow) == [1, 2, 3]
    assert seen == [1, 2, 3]


def test_limited_child_does_not_hold_up_its_sibling():
    """When one child has had enough the other goes on alone."""
    short, whole = flow_of(list(range(6))).split()
    flow = rf.Union(short.limit(2).for_each(tagged("short")), whole)
    out = everything(flow)
    assert [x for x in out if isinstance(x, int)] == list(range(6))
    assert len(out) == 8


def test_of_a_parallel_flow_is_rounds():
    """A parallel flow is gathered in rounds first: each child sees one list per round."""
    one, two = rf.from_range(4).split()
    out = everything(rf.Union(one.for_each(tagged(1)), two.for_each(tagged(2))))
    assert sorted(out) == [(1, [0, 2]), (1, [1, 3]), (2, [0, 2]), (2, [1, 3])]


def test_of_a_parallel_flow_is_concatenated_where_the_source_says_how():
    """With `concat` a round is one item, and the next round waits for both children."""
    workers = rf.Actors.of(Count, 2, name="worker")
    one, two = rf.from_actors(workers, concat=sum).duplicate()
    flow = rf.Union(one.for_each(tagged(1)), two.for_each(tagged(2)))
    assert flow.take(6, engine="sim") == [(1, 0), (2, 0), (1, 2), (2, 2), (1, 4), (2, 4)]


def test_provenance_in_each_child():
    """Each child knows who made the item."""
    one, two = rf.from_items("ab").gather_sync().split()
    flow = rf.Union(one.zip_with_source_actor(), two.zip_with_source_actor())
    out = everything(flow)
    assert [[actor.index for actor in actors] for actors, _ in out] == [[0, 1], [0, 1]]


def test_ledger_has_an_account_per_branch():
    """What became of an item is counted on each branch by itself."""

    def mark(item, ctx):
        ctx.mark("trained")
        return item

    train, drop = rf.from_range(4, 1).gather_async().split()
    flow = rf.Union(train.for_each(mark), drop.filter(lambda _: False, name="none"))
    with flow.run("sim") as run:
        assert list(run) == [0, 1, 2, 3]
        lines = {line.branch: line for line in run.ledger().balances()}
    assert lines["split(2)[0]"].done == {"trained": 4}
    assert lines["split(2)[1]"].dropped == {"filtered by none": 4}
    assert all(line.balanced and line.produced == 4 for line in lines.values())


def test_child_without_a_reader_is_refused():
    """A child nobody reads would stop the other; found before anything starts."""
    one, _ = flow_of([1]).split()
    with pytest.raises(rf.CheckError, match="every child of a split must be read"):
        one.take(1, engine="sim")


def test_two_readers_without_a_split_are_refused():
    """Reading a flow twice needs a split."""
    flow = flow_of([1])
    with pytest.raises(rf.CheckError, match=r"Use .split\(2\)"):
        rf.Union(flow, flow.for_each(str)).take(1, engine="sim")


@pytest.mark.parametrize("bad", [1, 0, True, 2.0])
def test_count_is_checked(bad):
    """A split makes at least two children."""
    with pytest.raises(rf.BuildError, match="at least 2 children"):
        flow_of([1]).split(bad)
