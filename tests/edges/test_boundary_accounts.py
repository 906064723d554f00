"""A request that fails half way through its operators leaves nothing behind in any account."""

from __future__ import annotations

from typing import Any

import pytest

import rillflow as rf

pytestmark = pytest.mark.timeout(20)


def refuse(*refused: Any) -> Any:
    """A callable that raises at these items."""

    def picky(item: Any) -> Any:
        if item in refused:
            raise ValueError(f"refused {item}")
        return item

    return picky


def everything(flow: rf.Flow[Any], engine: str) -> tuple[list[Any], Any]:
    """All items under `drop`, and the line of the ledger at the end."""
    with flow.run(engine, on_failure="drop") as run:
        items = list(run)
        (line,) = run.ledger().balances()
        assert run.ledger().balanced
        assert (line.held, line.in_flight) == (0, 0), str(line)
        assert line.balanced
        return items, line


def test_a_sibling_was_filtered_before_the_error(engine):
    """Of three pieces one is filtered, then one raises: one item is lost, and no more."""
    pieces = rf.from_items([[0, 1, 2], [3, 4, 5], [6, 7, 8]], 1).flatten()
    flow = pieces.filter(lambda n: n not in (1, 3), name="odd").for_each(refuse(2)).gather_async()
    items, line = everything(flow, engine)
    assert items == [4, 5, 6, 7, 8]
    assert sum(line.dropped.values()) == 1
    assert line.done == {"delivered": 2}


def test_a_filtered_sibling_of_an_item_that_arrives_is_no_loss(engine):
    """An item of which a piece arrived is delivered, whatever was filtered of it."""
    pieces = rf.from_items([[0, 1], [2, 3]], 1).flatten()
    items, line = everything(pieces.filter(lambda n: n % 2 == 0).gather_async(), engine)
    assert items == [0, 2]
    assert (line.done, line.dropped) == ({"delivered": 2}, {})


def test_a_batch_that_is_refused_takes_all_its_items(engine):
    """Behind a batch in an actor an error is that of every item in the batch."""
    batches = rf.from_range(7, 1).batch(2)
    items, line = everything(batches.for_each(refuse([2, 3])).gather_async(), engine)
    assert items == [[0, 1], [4, 5], [6]]
    assert line.dropped == {"error": 2}
    assert line.done == {"delivered": 5}


def test_a_last_batch_that_is_refused_takes_all_its_items(engine):
    """The same for what was left at the end of the stream."""
    batches = rf.from_range(8, 1).batch(3)
    items, line = everything(batches.for_each(refuse([6, 7])).gather_async(), engine)
    assert items == [[0, 1, 2], [3, 4, 5]]
    assert set(line.dropped) == {"error"}
    assert line.dropped["error"] in (2, 3), "with or without the request that met the end"


def test_an_item_that_is_refused_behind_a_shuffle_is_one_error(engine):
    """The item that came out of the buffer is lost; the one that went in is not."""
    flow = rf.from_range(9, 1).local_shuffle(4, seed=1).for_each(refuse(2)).gather_async()
    items, line = everything(flow, engine)
    assert sorted(items) == [0, 1, 3, 4, 5, 6, 7, 8]
    assert line.dropped == {"error": 1}


class Pairs:
    """Collects two items, then gives them as one."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def __call__(self, item: Any) -> list[Any]:
        self.kept.append(item)
        if len(self.kept) < 2:
            return []
        pair, self.kept = tuple(self.kept), []
        return [pair]


def test_what_was_combined_is_lost_together(engine):
    """Behind a combine in an actor an error is that of every item that was collected."""
    flow = rf.from_range(6, 1).combine(Pairs()).for_each(refuse((2, 3))).gather_async()
    items, line = everything(flow, engine)
    assert items == [(0, 1), (4, 5)]
    assert line.dropped == {"error": 2}


def test_an_error_between_two_buffers_leaves_the_second_alone(engine):
    """Items that wait in a later buffer of the actor are still delivered."""
    flow = rf.from_range(8, 1).batch(2).for_each(refuse([2, 3])).batch(2).gather_async()
    items, line = everything(flow, engine)
    assert items == [[[0, 1], [4, 5]], [[6, 7]]]
    assert (line.dropped, line.done) == ({"error": 2}, {"delivered": 6})


def test_counters_of_a_failed_request_travel_with_the_next(engine):
    """What an operator counted before a later one raised is counted."""

    def count(item: int, ctx: rf.Context) -> int:
        ctx.count("seen")
        return item

    flow = rf.from_range(5, 1).for_each(count).for_each(refuse(1, 2)).gather_async()
    with flow.run(engine, on_failure="drop") as run:
        assert list(run) == [0, 3, 4]
        counted = sum(line.counters.get("seen", 0) for line in run.stats().operators)
    assert counted == 5
