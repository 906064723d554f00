"""limit, in the actors and in the driver."""

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import Count, everything


def test_in_the_driver(engine):
    """The flow ends after n items."""
    flow = rf.from_actors(rf.Actors.of(Count, 1)).gather_sync().flatten().limit(3)
    assert everything(flow, engine) == [0, 1, 2]


def test_in_the_actors():
    """Each shard ends after n items."""
    flow = rf.from_actors(rf.Actors.of(Count, 2)).limit(2).gather_sync()
    assert everything(flow) == [[0, 0], [1, 1]]


def test_in_the_actors_with_requests_ahead():
    """Requests that were made ahead bring nothing more, and every one is accounted for."""
    flow = rf.from_actors(rf.Actors.of(Count, 2)).limit(2).gather_async(num_async=4)
    with flow.run("sim") as run:
        assert sorted(run) == [0, 0, 1, 1]
        assert run.ledger().balanced


def test_longer_than_the_flow():
    """Asking for more than there is just ends."""
    assert everything(flow_of([1, 2]).limit(9)) == [1, 2]


def test_before_an_operator_that_collects():
    """A batch behind a limit is flushed when the limit is reached."""
    assert everything(flow_of([1, 2, 3, 4]).limit(3).batch(2)) == [[1, 2], [3]]


def test_of_a_branch_ends_that_branch():
    """A limited branch of a union ends; its sibling goes on."""
    flow = rf.Concurrently([flow_of("abcdef").limit(2), flow_of([1, 2, 3])])
    assert everything(flow) == ["a", 1, "b", 2, 3]


@pytest.mark.parametrize("bad", [0, -1, 1.0])
def test_count_is_checked(bad):
    """A limit is a whole number of at least one."""
    with pytest.raises(rf.BuildError, match="limit: n"):
        flow_of([1]).limit(bad)
