"""filter, in the actors and in the driver."""

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import everything


def test_in_the_actors(engine):
    """Items below three, in rounds of what is left."""
    assert rf.from_range(4).filter(lambda x: x < 3).take(9, engine=engine) == [0, 2, 1]


def test_in_the_driver():
    """In the driver the order is kept."""
    assert everything(flow_of([5, 0, 3, 1]).filter(lambda x: x >= 2)) == [5, 3]


def test_rejecting_everything_ends():
    """A filter that keeps nothing gives an empty flow."""
    assert everything(rf.from_range(6).filter(lambda _: False).gather_sync()) == []
    assert everything(rf.from_range(6).filter(lambda _: False).gather_async(num_async=3)) == []


@pytest.mark.parametrize("placed", ["actor", "driver"])
def test_rejected_items_are_counted(placed):
    """The ledger says how many were dropped, and by which operator."""
    if placed == "actor":
        flow = rf.from_range(6).filter(lambda x: x % 2, name="odd").gather_async()
    else:
        flow = rf.from_range(6).gather_async().filter(lambda x: x % 2, name="odd")
    with flow.run("sim") as run:
        assert sorted(run) == [1, 3, 5]
        (line,) = run.ledger().balances()
    assert (line.produced, line.done, line.dropped) == (6, {"delivered": 3}, {"filtered by odd": 3})


def test_with_context():
    """A filter may look at the provenance of an item."""

    def even_request(item, ctx):
        return ctx.provenance[0].seq % 2 == 0

    flow = rf.from_items("abcd", 1).filter(even_request).gather_sync().flatten()
    assert everything(flow) == ["a", "c"]
