"""Concurrently: flows run together, some for their effects."""

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import everything


@pytest.mark.parametrize("mode", ["round_robin", "async"])
def test_two_lists(engine, mode):
    """[1,2,3] and [4,5,6] come out in turns, in either mode when both are always ready."""
    flow = rf.Concurrently([flow_of([1, 2, 3]), flow_of([4, 5, 6])], mode=mode)
    assert everything(flow, engine) == [1, 4, 2, 5, 3, 6]


def test_round_robin_over_processes(engine):
    """Turns do not depend on who is faster."""
    left = rf.from_items([1, 2, 3], 1).gather_async()
    right = rf.from_items([4, 5, 6], 1).gather_async()
    assert everything(rf.Concurrently([left, right]), engine) == [1, 4, 2, 5, 3, 6]


def test_output_indexes():
    """Only the flows named give items; the others run all the same."""
    seen = []
    left = flow_of([1, 2, 3]).for_each(seen.append)
    flow = rf.Concurrently([left, flow_of([4, 5, 6])], output_indexes=[1])
    assert everything(flow) == [4, 5, 6]
    assert seen == [1, 2, 3]


def test_all_outputs():
    """Naming all is the same as naming none."""
    flow = rf.Concurrently([flow_of([1, 2]), flow_of([4, 5])], output_indexes=[0, 1])
    assert everything(flow) == [1, 4, 2, 5]


def test_ends_with_the_outputs():
    """A flow that runs for its effects does not keep the run alive."""
    forever = rf.from_items([0], 1, repeat=True, placement="driver").gather_sync()
    assert everything(rf.Concurrently([forever, flow_of([1, 2])], output_indexes=[1])) == [1, 2]


def test_effects_that_end_first_do_not_end_the_outputs():
    """When the flow for effects has ended the outputs go on."""
    flow = rf.Concurrently([flow_of([0]), flow_of([1, 2, 3])], output_indexes=[1])
    assert everything(flow) == [1, 2, 3]


def test_consumed_items_are_in_the_ledger():
    """Items of a flow that runs for its effects are counted as consumed."""
    left = rf.from_range(3, 1).gather_async()
    with rf.Concurrently([left, flow_of([4, 5, 6])], output_indexes=[1]).run("sim") as run:
        assert list(run) == [4, 5, 6]
        line = next(line for line in run.ledger().balances() if line.source == "from_range(3)")
        assert line.done == {"consumed": 3}


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mode": "parallel"}, "unknown mode"),
        ({"mode": "async", "weights": [1, 1]}, "weights need mode='round_robin'"),
        ({"output_indexes": []}, "output_indexes"),
        ({"output_indexes": [2]}, "output_indexes"),
    ],
)
def test_arguments_are_checked(options, match):
    """Wrong arguments are refused when the flow is written."""
    with pytest.raises(rf.BuildError, match=match):
        rf.Concurrently([flow_of([1]), flow_of([2])], **options)
