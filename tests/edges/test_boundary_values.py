"""What crosses an actor edge is read-only, and nobody writes to it again, wherever actors live."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.edges.parts import Arrays, Reuses, Unreadable, arrays, writable

pytestmark = pytest.mark.timeout(20)


def first_batch(place: tuple[str, str], method: str) -> Any:
    """The first three items of an actor that keeps what it gives, looked at together."""
    engine, placement = place
    actors = rf.Actors.of(Reuses, 1, placement=placement)
    flow = rf.from_actors(actors, method).gather_async(num_async=2).batch(3)
    (batch,) = flow.take(1, engine=engine)
    return batch


def test_an_array_that_its_actor_fills_again_keeps_its_values(place):
    """A reused buffer gives three different items, which nobody can write to."""
    batch = first_batch(place, "next")
    assert [array.tolist() for array in batch] == [[1, 1], [2, 2], [3, 3]]
    assert [array.flags.writeable for array in batch] == [False] * 3


def test_a_mapping_that_its_actor_fills_again_keeps_its_values(place):
    """The same for what is inside a mapping, and for the mapping itself."""
    batch = first_batch(place, "nested")
    assert [(item["n"], item["array"].tolist()) for item in batch] == [
        (1, [1, 1]),
        (2, [2, 2]),
        (3, [3, 3]),
    ]
    assert [item["array"].flags.writeable for item in batch] == [False] * 3


def test_a_list_that_its_actor_goes_on_filling_keeps_its_length(place):
    """An item is what it was when it was given."""
    assert first_batch(place, "logged") == [[1], [1, 2], [1, 2, 3]]


def test_who_gets_an_item_cannot_change_its_actor(place):
    """What the driver does to a list stays in the driver."""
    engine, placement = place

    def spoil(item: list[Any]) -> list[Any]:
        item.append("spoilt")
        return list(item)

    actors = rf.Actors.of(Reuses, 1, placement=placement)
    flow = rf.from_actors(actors, "logged").gather_async().for_each(spoil)
    assert flow.take(3, engine=engine) == [
        [1, "spoilt"],
        [1, 2, "spoilt"],
        [1, 2, 3, "spoilt"],
    ]


def test_the_answer_of_a_call_keeps_its_values(place):
    """`run.call` gives what was there when it asked, read-only."""
    engine, placement = place
    actors = rf.Actors.of(Reuses, 1, placement=placement)
    with rf.from_actors(actors).gather_sync().run(engine) as run:
        before = run.call(actors[0], "next")
        log = run.call(actors[0], "logged")
        list(islice(run, 3))
        run.call(actors[0], "logged")
        assert before.tolist() == [1, 1]
        assert not before.flags.writeable
        assert log == [2]


def test_an_array_that_an_operator_fills_again_reaches_the_background_as_it_was(place):
    """An operator of the driver may reuse its buffer, though the background is slower than it."""
    engine, placement = place
    numbers = flow_of(list(range(4))).for_each(Reuses())
    flow = numbers.for_each(lambda array: array.tolist(), on=placement, capacity=4)
    if placement == "driver":
        background = rf.Background(lambda array: array.tolist(), placement="driver")
        feed = numbers.for_each(rf.Enqueue(background.inqueue))
        read = rf.Dequeue(background.outqueue)
        flow = rf.Concurrently([feed, read], mode="async", output_indexes=[1])
    assert flow.take(9, engine=engine) == [[n, n] for n in (1, 2, 3, 4)]


def test_a_message_is_what_it_was_when_it_was_sent(place):
    """A sender may go on writing to what it has sent."""
    engine, placement = place

    class Overwrites(rf.Operator[Any, Any]):
        def __init__(self) -> None:
            self.array = np.zeros(2)
            self.items: list[int] = []

        def __call__(self, item: Any, ctx: rf.Context) -> Any:
            self.array[:] = item
            self.items.append(item)
            ctx.send(ctx.sources, "take", self.array, self.items, {"array": self.array})
            self.array[:] = -1
            return item

    class Keeps:
        def __init__(self) -> None:
            self.n = 0
            self.told: list[Any] = []

        def next(self) -> int:
            self.n += 1
            return self.n

        def take(self, array: Any, items: list[int], mapping: dict[str, Any]) -> None:
            self.told.append((array, items, mapping["array"]))

        def seen(self) -> Any:
            return [(a.tolist(), list(i), m.tolist()) for a, i, m in self.told]

    actors = rf.Actors.of(Keeps, 1, placement=placement)
    with rf.from_actors(actors).gather_async().for_each(Overwrites()).run(engine) as run:
        list(islice(run, 3))
        assert run.call(actors[0], "seen") == [
            ([1, 1], [1], [1, 1]),
            ([2, 2], [1, 2], [2, 2]),
            ([3, 3], [1, 2, 3], [3, 3]),
        ]


# -- every kind of array ---------------------------------------------------------------------------


def test_no_array_of_an_item_can_be_written_to(place):
    """Objects, times, masks, records and subclasses included."""
    engine, placement = place
    flow = rf.from_actors(rf.Actors.of(Arrays, 1, placement=placement)).gather_async()
    ((given, _),) = flow.take(1, engine=engine)
    assert writable(given) == []
    for name, array in arrays().items():
        arrived = given[name]
        assert (type(arrived), arrived.dtype) == (type(array), array.dtype), name
        assert arrived.tolist() == array.tolist(), name


def test_no_array_of_a_message_can_be_written_to(place):
    """The same in the other direction, sent as a value or as a reference."""
    engine, placement = place

    def send(item: Any, ctx: rf.Context) -> list[str] | None:
        ctx.send(ctx.sources, "take", arrays())
        return item[1]  # type: ignore[no-any-return]

    def send_ref(item: Any, ctx: rf.Context) -> list[str] | None:
        ctx.send(ctx.sources, "take", ctx.put(arrays()))
        return item[1]  # type: ignore[no-any-return]

    for how in (send, send_ref):
        actors = rf.Actors.of(Arrays, 1, placement=placement)
        flow = rf.from_actors(actors).gather_async().for_each(how)
        assert flow.take(2, engine=engine) == [None, []]


def test_no_array_given_to_a_background_can_be_written_to(place):
    """Nor what comes back from it."""
    engine, placement = place

    def look(told: Any) -> Any:
        return writable(told), arrays()

    background = rf.Background(look, placement=placement)
    feed = flow_of([0]).for_each(lambda _: arrays()).for_each(rf.Enqueue(background.inqueue))
    read = rf.Dequeue(background.outqueue)
    flow = rf.Concurrently([feed, read], mode="async", output_indexes=[1])
    ((found, given),) = flow.take(1, engine=engine)
    assert (found, writable(given)) == ([], [])


# -- what cannot be read ---------------------------------------------------------------------------


class Writes:
    """Gives values of which the second cannot be read."""

    def __init__(self) -> None:
        self.n = -1

    def next(self) -> Unreadable:
        self.n += 1
        return Unreadable(self.n)


@pytest.mark.parametrize("gather", ["gather_async", "gather_sync"])
@pytest.mark.parametrize("reader", ["user", "operator"])
def test_an_item_that_nobody_can_read_is_one_error(engine, gather, reader):
    """Whoever reads it gets the error; the shard that made it is asked again."""
    flow = getattr(rf.from_actors(rf.Actors.of(Writes, 1)), gather)()
    flow = flow.flatten() if gather == "gather_sync" else flow
    if reader == "operator":
        flow = flow.for_each(lambda item: item)
    with flow.run(engine) as run:
        assert next(run).number == 0
        with pytest.raises(ValueError, match="nobody can read item 1"):
            next(run)
        assert [next(run).number, next(run).number] == [2, 3]
        assert run.ledger().balanced
