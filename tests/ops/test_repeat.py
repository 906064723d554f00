"""repeat: each item several times, with newer ones in between; nothing is pushed out."""

from collections import Counter

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import everything


def test_times_follow_each_other(engine):
    """Without anything in between, an item comes so many times in a row."""
    flow = rf.from_range(6, 2).gather_sync().flatten().repeat(2)
    assert everything(flow, engine) == [n for n in (0, 3, 1, 4, 2, 5) for _ in range(2)]


def test_newer_items_come_between():
    """The second time of an item comes with the item that is two newer, the rest at the end."""
    assert everything(flow_of([0, 1, 2, 3, 4]).repeat(2, after=2)) == [
        *(0, 1, 2, 0, 3, 1, 4, 2),
        *(3, 4),
    ]


@pytest.mark.parametrize("times", [1, 2, 3, 5])
@pytest.mark.parametrize("after", [0, 1, 2, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 30])
def test_every_item_comes_exactly_so_often(times, after, count):
    """However many items there are: none is pushed out by newer ones."""
    after = after if times > 1 else 0
    given = everything(flow_of(list(range(count))).repeat(times, after=after))
    assert Counter(given) == dict.fromkeys(range(count), times)
    assert list(dict.fromkeys(given)) == list(range(count))


def test_what_comes_again_is_new_by_so_many_items():
    """In the middle of a stream, each new item is followed by those that are due, newest first."""
    given = everything(flow_of(list(range(20))).repeat(3, after=4))
    middle = given[given.index(12) : given.index(13)]
    assert middle == [12, 8, 4]


def test_provenance_is_that_of_the_item():
    """An item that comes again tells of the request that it came from, not of the newest one."""
    flow = rf.from_range(6, 1).gather_async().repeat(2, after=2)
    told = flow.for_each(lambda n, ctx: (n, ctx.provenance[0].seq))
    first: dict[int, int] = {}
    for n, seq in everything(told):
        assert first.setdefault(n, seq) == seq
    assert len(set(first.values())) == 6


def test_a_request_is_held_until_its_last_time():
    """The ledger has it held in between, and balances all the while."""
    flow = rf.from_range(100, 1).gather_async().repeat(2, after=3)
    with flow.run("sim") as run:
        for _ in range(12):
            next(run)
            assert run.ledger().balanced
        (line,) = run.ledger().balances()
    assert line.done == {"delivered": 4}  # 12 items: 8 first times, 4 second ones
    assert line.dropped == {}
    assert line.held >= 3


@pytest.mark.parametrize("bad", [0, -1, 1.5, None, True])
def test_times_are_checked(bad):
    """An item comes at least once."""
    with pytest.raises(rf.BuildError, match="times must be a whole number of at least 1"):
        flow_of([1]).repeat(bad)


@pytest.mark.parametrize("bad", [-1, 1.5, None, True])
def test_what_comes_between_is_checked(bad):
    """It is a number of items."""
    with pytest.raises(rf.BuildError, match="repeat: after must be a whole number of at least 0"):
        flow_of([1]).repeat(2, after=bad)


def test_between_one_time_there_is_nothing():
    """A setting that nothing reads is refused, with the way out."""
    with pytest.raises(rf.BuildError, match="with times=1 there is one; leave it out"):
        flow_of([1]).repeat(1, after=3)
