"""batch, in the actors and in the driver."""

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import everything


def test_in_the_actors(engine):
    """Each shard makes lists of its own items."""
    assert rf.from_range(4).batch(2).take(9, engine=engine) == [[0, 1], [2, 3]]


def test_in_the_driver():
    """In the driver items of all shards go into one list."""
    assert everything(flow_of([1, 2, 3, 4]).batch(2)) == [[1, 2], [3, 4]]


@pytest.mark.parametrize("parallel", [True, False])
def test_last_batch_is_shorter(parallel):
    """What is left at the end comes out as a shorter list."""
    source = rf.from_range(5, 1)
    flow = source.batch(2).gather_sync().flatten() if parallel else source.gather_async().batch(2)
    assert everything(flow) == [[0, 1], [2, 3], [4]]


def test_of_one():
    """Batches of one are lists of one."""
    assert everything(flow_of([1, 2]).batch(1)) == [[1], [2]]


def test_rounds_of_batches(engine):
    """A batch is one item of its shard: a round has one batch of each."""
    flow = rf.from_range(8).batch(2).gather_sync()
    assert everything(flow, engine) == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


def test_of_flattened_items_in_the_actor(engine):
    """Items of one request may end up in two batches, and all of them are accounted for."""
    flow = rf.from_items([[0, 1], [2, 3], [4, 5]], 1).flatten().batch(3).gather_sync().flatten()
    with flow.run(engine) as run:
        assert list(run) == [[0, 1, 2], [3, 4, 5]]
        (line,) = run.ledger().balances()
    assert (line.produced, line.in_flight, line.held) == (3, 0, 0)
    assert line.balanced


def test_of_flattened_items_in_the_driver():
    """The same in the driver."""
    flow = rf.from_items([[0, 1], [2, 3], [4, 5]], 1).gather_async().flatten().batch(3)
    with flow.run("sim") as run:
        assert list(run) == [[0, 1, 2], [3, 4, 5]]
        (line,) = run.ledger().balances()
    assert (line.produced, line.held, line.done) == (3, 0, {"delivered": 3})


def test_held_items_are_in_the_ledger():
    """Items that wait in a batch are held, and an audit finds them."""
    flow = rf.from_range(6, 1).gather_async().batch(4)
    with flow.run("sim") as run:
        next(run)
        (line,) = run.ledger().balances()
        assert line.done == {"delivered": 4}
        assert run._scheduler.audit().get("from_range(6)", 0) == line.held
        assert line.balanced


@pytest.mark.parametrize("bad", [0, -1, True, 2.0])
def test_size_is_checked(bad):
    """A batch has at least one item."""
    with pytest.raises(rf.BuildError, match="batch: n"):
        flow_of([1]).batch(bad)
