"""flatten, in the actors and in the driver."""

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import everything


def test_inverse_of_batch(engine):
    """flatten gives back what batch collected."""
    assert rf.from_range(4).batch(2).flatten().take(9, engine=engine) == [0, 2, 1, 3]


def test_in_the_driver():
    """Elements come out one by one, in order."""
    assert everything(flow_of([[1, 2], [], [3]]).flatten()) == [1, 2, 3]


def test_takes_tuples_and_generators():
    """Anything that can be iterated may be flattened, but not text."""
    assert everything(flow_of([(1, 2)]).flatten()) == [1, 2]
    assert everything(flow_of([2]).for_each(range).flatten()) == [0, 1]


@pytest.mark.parametrize("bad", [1, "ab", {"a": 1}])
def test_refuses_what_is_no_list(bad):
    """An item that is no list is an error that names the operator."""
    with pytest.raises(TypeError, match="flatten takes items that are lists") as caught:
        everything(flow_of([bad]).for_each(lambda item: item).flatten(name="unpack"))
    assert "unpack" in str(caught.value)


@pytest.mark.parametrize("bad", [1, "ab", {"a": 1}])
def test_refuses_what_is_known_to_be_no_list(bad):
    """Where the type of the items is known, the mistake is found when the flow is written."""
    with pytest.raises(rf.TypeMismatch, match="'flatten' takes lists apart"):
        flow_of([bad]).flatten()


def test_empty_lists_are_counted_as_dropped():
    """A request that gave an empty list produced nothing, and the ledger says so."""
    with rf.from_items([[1], []], 1).gather_async().flatten().run("sim") as run:
        assert list(run) == [1]
        (line,) = run.ledger().balances()
    assert line.dropped == {"empty by flatten": 1}


def test_of_rounds_is_shard_order(engine):
    """Flattened rounds are items in shard order."""
    flow = rf.from_items("abcdef", 3).gather_sync().flatten()
    assert everything(flow, engine) == list("abcdef")
