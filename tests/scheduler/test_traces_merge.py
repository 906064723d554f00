"""Events in, actions out, for split, union and queues."""

import pytest

import rillflow as rf
from tests.scheduler.parts import asked, workers

# -- split and union -------------------------------------------------------------------------------


def test_split_is_done_when_every_child_is(engine):
    """A shard is asked again after both children of the split are done with its item."""
    one, two = rf.from_actors(workers(1)).gather_async().split()
    flow = rf.Union(one.for_each(lambda x: ("one", x)), two.for_each(lambda x: ("two", x)))
    with flow.run(engine) as run:
        engine.complete("worker-0", 1)
        assert [next(run), next(run)] == [("one", 1), ("two", 1)]
        assert engine.drain("request") == asked("worker-0", 0)
        engine.complete("worker-0", 2)
        assert sorted([next(run), next(run)]) == [("one", 2), ("two", 2)]
        assert engine.drain("request") == asked("worker-0", 1)


def test_split_child_that_lags_is_served_first(engine):
    """The child that is ahead may not take a second item before its sibling took the first."""
    ahead, behind = rf.from_actors(workers(1)).gather_async(num_async=4).split()
    flow = rf.Union(
        ahead.for_each(lambda x: ("ahead", x)), behind.for_each(lambda x: ("behind", x)),
        weights=[1, 1],
    )  # fmt: skip
    with flow.run(engine) as run:
        for item in range(3):
            engine.complete("worker-0", item)
        assert [next(run) for _ in range(6)] == [
            ("ahead", 0), ("behind", 0), ("ahead", 1), ("behind", 1), ("ahead", 2), ("behind", 2)
        ]  # fmt: skip


def two_sources(**options):
    left = rf.from_actors(workers(1, "left")).gather_async(num_async=4)
    right = rf.from_actors(workers(1, "right")).gather_async(num_async=4)
    return rf.Union(left, right, **options)


def test_union_as_ready_takes_what_there_is(engine):
    """Without weights a slow child is not waited for."""
    with two_sources().run(engine) as run:
        engine.complete("right-0", "r0")
        engine.complete("right-0", "r1")
        assert [next(run), next(run)] == ["r0", "r1"]


def test_union_as_ready_serves_the_least_recently_served(engine):
    """When both are ready, turns alternate."""
    with two_sources().run(engine) as run:
        for item in range(3):
            engine.complete("right-0", f"r{item}")
            engine.complete("left-0", f"l{item}")
        assert [next(run) for _ in range(6)] == ["l0", "r0", "l1", "r1", "l2", "r2"]


def test_round_robin_waits_for_a_slow_child(engine):
    """A child whose turn it is and whose request is on its way is waited for."""
    with two_sources(weights=[1, 1]).run(engine) as run:
        engine.complete("right-0", "r0")
        engine.complete("right-0", "r1")
        engine.advance(1.0)
        engine.complete("left-0", "l0")
        assert [next(run), next(run)] == ["l0", "r0"]
        engine.complete("left-0", "l1")
        assert [next(run), next(run)] == ["l1", "r1"]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1, 2], "lrrlrrlrr"),
        ([3, 1], "lrlllrlllrll"),
        ([0.5, 1], "lrrlrrlrr"),
        ([1, 2.5], "lrrrlrrlrrrlrr"),
    ],
)
def test_weights_are_exact(engine, weights, expected):
    """The order of turns follows from the weights alone, also when they are fractions."""
    with two_sources(weights=weights).run(engine) as run:
        order = ""
        engine.complete("left-0", "l")
        engine.complete("right-0", "r")
        for _ in expected:
            order += next(run)
            engine.complete("left-0" if order[-1] == "l" else "right-0", order[-1])
    assert order == expected


def test_round_robin_passes_over_a_parked_child_and_keeps_its_credit(engine):
    """A child that waits for room in a queue is skipped, and catches up when there is room."""
    queue = rf.Queue(capacity=1, name="q")
    feed = rf.from_actors(workers(1, "feed")).gather_async(num_async=4).for_each(rf.Enqueue(queue))
    other = rf.from_actors(workers(1, "other")).gather_async(num_async=8)
    reader = rf.Dequeue(queue).for_each(lambda x: ("read", x))
    flow = rf.Concurrently([feed, other, reader], weights=[1, 1, 0.25])
    with flow.run(engine) as run:
        for item in range(4):
            engine.complete("feed-0", item)
        for item in "abcdefgh":
            engine.complete("other-0", item)
        got = [next(run) for _ in range(12)]
    assert got == [
        0, "a", ("read", 0),
        1, "b",  # the queue is full again: from here feed is passed over
        "c", "d",
        "e", ("read", 1),  # room
        2, "f", "g",
    ]  # fmt: skip


def test_round_robin_gives_no_credit_to_a_child_that_warms_up(engine):
    """A child that was not ready starts level with its siblings when its first item comes."""

    def store(item, ctx):
        ctx.send(replay, "add", item)
        return item

    replay = workers(1, "replay")
    source = rf.from_actors(workers(1, "other")).gather_async(num_async=8).for_each(store)
    flow = rf.Union(rf.from_actors(replay).gather_async(), source, weights=[1, 1])
    with flow.run(engine) as run:
        engine.not_ready("replay-0")
        for item in "abcd":
            engine.complete("other-0", item)
            assert next(run) == item
            engine.not_ready("replay-0")
        engine.complete("other-0", "e")
        got = [next(run)]
        for item in "fgh":
            engine.complete("replay-0", item.upper())
            engine.complete("other-0", item)
            got += [next(run), next(run)]
    assert got == ["e", "F", "f", "G", "g", "H", "h"]


def test_round_robin_passes_over_an_empty_queue(engine):
    """A child that needs another branch to move first is skipped; nothing deadlocks."""
    queue = rf.Queue(capacity=2, name="q")
    reader = rf.Dequeue(queue).for_each(lambda x: ("read", x))
    feed = rf.from_actors(workers(1)).gather_async().for_each(rf.Enqueue(queue))
    flow = rf.Concurrently([reader, feed])
    with flow.run(engine) as run:
        engine.complete("worker-0", 1)
        assert [next(run), next(run)] == [1, ("read", 1)]


def test_filter_that_rejects_everything_starves_nobody(engine):
    """A turn consumes one input: the sibling of one that yields nothing is served as often."""
    nothing = rf.from_actors(workers(1, "left")).gather_async().filter(lambda _: False)
    right = rf.from_actors(workers(1, "right")).gather_async()
    with rf.Concurrently([nothing, right]).run(engine) as run:
        for item in range(3):
            engine.complete("left-0", item)
            engine.complete("right-0", item)
            assert next(run) == item
        assert len(engine.drain("request")) <= 7


# -- queues ----------------------------------------------------------------------------------------


def learner_flow(capacity, room=4, num_async=4):
    learner = rf.Background(
        lambda x: x,
        name="learner",
        inqueue=rf.Queue(capacity=room, name="in"),
        outqueue=rf.Queue(capacity=capacity, name="out"),
    )
    items = rf.from_actors(workers(1)).gather_async(num_async=num_async)
    feed = items.for_each(rf.Enqueue(learner.inqueue))
    return rf.Concurrently([feed, rf.Dequeue(learner.outqueue)], mode="async", output_indexes=[1])


def test_full_queue_parks_the_gather(engine):
    """While the queue is full nothing is pulled from the gather, so no request is made."""
    with learner_flow(capacity=1, room=2, num_async=1).run(engine) as run:
        for item in range(4):
            engine.complete("worker-0", item)
        engine.complete("learner-0", "r0")
        assert next(run) == "r0"
        # 0 was handed over, 1 and 2 filled the queue, 3 waits in the gather: no request 4
        assert [a for a in engine.drain("request") if a[1] == "worker-0"] == asked(
            "worker-0", 0, 1, 2, 3
        )
        engine.complete("learner-0", "r1")
        assert next(run) == "r1"
        # 1 was handed over when r0 was taken: there was room for 3
        requests = [a for a in engine.drain("request") if a[1] == "worker-0"]
        assert requests == asked("worker-0", 4)


def test_background_is_handed_what_its_out_queue_has_room_for(engine):
    """A background operator is given as many items as there is room for results, and no more."""
    with learner_flow(capacity=2).run(engine) as run:
        for item in range(4):
            engine.complete("worker-0", item)
        engine.advance(1.0)
        engine.complete("learner-0", "r0")
        assert next(run) == "r0"
        handed = [a for a in engine.drain("request") if a[1] == "learner-0"]
        # two at first; the third when r0 left the out-queue
        assert handed == [("request", "learner-0", i, i) for i in range(3)]
        assert engine.open_requests("learner-0") == [1, 2]


def test_background_results_keep_their_provenance(engine):
    """What a background operator made of an item still names the worker behind the item."""
    flow = learner_flow(capacity=2).zip_with_source_actor()
    with flow.run(engine) as run:
        engine.complete("worker-0", "item")
        engine.complete("learner-0", "result")
        handle, result = next(run)
        assert (repr(handle), result) == ("<actor worker-0>", "result")


@pytest.mark.parametrize(("policy", "kept"), [("drop_oldest", 3), ("drop_newest", 1)])
def test_queue_that_drops_never_parks(engine, policy, kept):
    """A dropping queue lets its producer go on; it loses the oldest or the newest, and counts."""
    queue = rf.Queue(capacity=2, name="q", when_full=policy)
    feed = rf.from_actors(workers(1)).gather_async().for_each(rf.Enqueue(queue))
    reader = rf.Dequeue(queue).for_each(lambda x: ("read", x))
    flow = rf.Concurrently([feed, reader], weights=[1, 0.25])
    with flow.run(engine) as run:
        for item in range(5):
            engine.complete("worker-0", item)
        assert [next(run) for _ in range(7)] == [0, ("read", 0), 1, 2, 3, 4, ("read", kept)]
        assert run.stats().operator("enqueue(q)").counters == {"dropped": 2}


def test_dead_background_raises_and_stays_dead(engine):
    """Whoever pulls after the loss of a background operator is told again, not left waiting."""
    with learner_flow(capacity=1, room=1, num_async=1).run(engine) as run:
        engine.complete("worker-0", 0)
        engine.lose("learner-0", "its process was killed")
        with pytest.raises(rf.WorkerLost, match="learner-0"):
            next(run)
        engine.complete("worker-0", 1)
        engine.complete("worker-0", 2)
        with pytest.raises(rf.RunError):
            next(run)
