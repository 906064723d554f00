"""Enqueue and Dequeue: bounded queues between branches."""

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import Count, everything


def through(queue, source, **options):
    feed = source.for_each(rf.Enqueue(queue))
    return rf.Concurrently([feed, rf.Dequeue(queue)], output_indexes=[1], **options)


@pytest.mark.parametrize("mode", ["round_robin", "async"])
@pytest.mark.parametrize("capacity", [1, 2, 100])
def test_order_is_kept(mode, capacity):
    """What goes in comes out, in order, whatever the capacity; then the reader ends."""
    queue = rf.Queue(capacity=capacity)
    assert everything(through(queue, flow_of(list(range(10))), mode=mode)) == list(range(10))


def test_enqueue_passes_items_on(engine):
    """The branch that fills the queue gives its items as well."""
    queue = rf.Queue(capacity=4)
    feed = rf.from_items([1, 2], 1).gather_async().for_each(rf.Enqueue(queue))
    flow = rf.Concurrently([feed, rf.Dequeue(queue).for_each(lambda x: -x)])
    assert sorted(everything(flow, engine)) == [-2, -1, 1, 2]


def test_two_producers():
    """A queue ends when all its producers have."""
    queue = rf.Queue(capacity=2)
    feeds = [flow_of(items).for_each(rf.Enqueue(queue)) for items in ([1, 2, 3], [10])]
    flow = rf.Concurrently([*feeds, rf.Dequeue(queue)], output_indexes=[2])
    assert sorted(everything(flow)) == [1, 2, 3, 10]


def test_two_readers_share():
    """Two readers of one queue get each item once between them."""
    queue = rf.Queue(capacity=2)
    feed = flow_of(list(range(10))).for_each(rf.Enqueue(queue))
    readers = [rf.Dequeue(queue, name=f"reader {i}") for i in range(2)]
    flow = rf.Concurrently([feed, *readers], mode="async", output_indexes=[1, 2])
    assert sorted(everything(flow)) == list(range(10))


def test_limit_behind_the_enqueue_ends_the_queue():
    """A producer that wants no more counts as ended: the reader is not left waiting."""
    queue = rf.Queue(capacity=8)
    feed = flow_of(list(range(5))).for_each(rf.Enqueue(queue)).limit(3)
    flow = rf.Concurrently([feed, rf.Dequeue(queue)], output_indexes=[1])
    assert everything(flow) == [0, 1, 2]


@pytest.mark.parametrize("capacity", [1, 3])
def test_never_above_capacity(capacity):
    """A slow reader makes the producer wait: depth never exceeds the capacity."""
    queue = rf.Queue(capacity=capacity, name="q")
    actors = rf.Actors.of(Count, 1, placement="driver")
    feed = rf.from_actors(actors).gather_async(num_async=4).for_each(rf.Enqueue(queue))
    flow = rf.Concurrently([feed, rf.Dequeue(queue).batch(2)], weights=[10, 1], output_indexes=[1])
    with flow.run("sim") as run:
        for n in range(10):
            assert next(run) == [2 * n, 2 * n + 1]
            line = run.stats().operator("enqueue(q)")
            assert line.depth <= line.capacity == capacity


@pytest.mark.parametrize(
    ("policy", "kept"), [("drop_oldest", [0, 9, 10]), ("drop_newest", [0, 1, 2])]
)
def test_dropping_is_a_stated_policy(policy, kept):
    """A queue that may drop never holds its producer up, and counts what it dropped."""
    queue = rf.Queue(capacity=2, name="q", when_full=policy)
    feed = flow_of(list(range(11))).for_each(rf.Enqueue(queue))
    flow = rf.Concurrently([feed, rf.Dequeue(queue)], weights=[100, 1], output_indexes=[1])
    with flow.run("sim") as run:
        assert list(run) == kept
        assert run.stats().operator("enqueue(q)").counters == {"dropped": 8}
        (line,) = run.ledger().balances()
    assert (line.done, line.dropped) == ({"delivered": 3}, {"queue full: q": 8})


def test_provenance_survives_the_queue():
    """An item from a queue knows who made it."""
    queue = rf.Queue()
    flow = through(queue, rf.from_items("ab").gather_async()).zip_with_source_actor()
    assert sorted((actor.index, item) for actor, item in everything(flow)) == [(0, "a"), (1, "b")]


def test_enqueue_inside_a_function_is_refused():
    """Enqueue has to stand alone, because it may have to wait."""
    enqueue = rf.Enqueue(rf.Queue(name="q"))
    with pytest.raises(rf.BuildError, match="must stand alone"):
        enqueue(1)


def test_queue_that_nobody_reads_is_refused():
    """A full queue without a reader would stop its producer for ever."""
    flow = flow_of([1]).for_each(rf.Enqueue(rf.Queue(name="q")))
    with pytest.raises(rf.CheckError, match="nothing empties 'q'"):
        flow.take(1, engine="sim")


def test_queue_that_nobody_fills_is_refused():
    """Nothing would ever come."""
    with pytest.raises(rf.CheckError, match="nothing fills 'q'"):
        rf.Dequeue(rf.Queue(name="q")).take(1, engine="sim")


def test_loop_needs_a_beginning():
    """Two queues that are filled only from each other stay empty."""
    one, two = rf.Queue(name="one"), rf.Queue(name="two")
    flow = rf.Concurrently(
        [rf.Dequeue(one).for_each(rf.Enqueue(two)), rf.Dequeue(two).for_each(rf.Enqueue(one))]
    )
    with pytest.raises(rf.CheckError, match="filled only from each other"):
        flow.take(1, engine="sim")


@pytest.mark.parametrize(
    "build",
    [
        lambda: rf.Queue(capacity=0),
        lambda: rf.Queue(capacity=2.5),
        lambda: rf.Queue(when_full="explode"),
        lambda: rf.Enqueue([]),
        lambda: rf.Dequeue([]),
    ],
)
def test_arguments_are_checked(build):
    """Wrong arguments are refused when the flow is written."""
    with pytest.raises(rf.BuildError):
        build()
