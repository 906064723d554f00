"""Events in, actions out: what the scheduler does, without any engine.

Each test feeds answers by hand and compares the exact list of requests, messages, starts and kills.
"""

import pytest

import rillflow as rf
from tests.scheduler.parts import Broadcast, Publish, asked, told, workers

TALK = ("request", "tell")


# -- rounds ----------------------------------------------------------------------------------------


def test_sync_round_is_in_shard_order(engine):
    """A round asks every shard once and yields in shard order, whoever answers first."""
    with rf.from_actors(workers()).gather_sync().run(engine) as run:
        engine.complete("worker-1", "b")
        engine.complete("worker-0", "a")
        assert next(run) == ["a", "b"]
        assert engine.drain("request") == [*asked("worker-0", 0), *asked("worker-1", 0)]


def test_sync_next_round_is_requested_by_the_next_pull(engine):
    """While the user holds a round nothing is requested; messages precede the next requests."""
    group = workers()
    flow = rf.from_actors(group).gather_sync().for_each(Broadcast(group))
    with flow.run(engine) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-1", "b")
        next(run)
        engine.drain()
        assert engine.open_requests("worker-0") == []
        engine.complete("worker-0", "c")
        engine.complete("worker-1", "d")
        assert next(run) == ["c", "d"]
        assert engine.actions[-4:-2] == [*asked("worker-0", 1), *asked("worker-1", 1)]
        assert engine.actions[-2:] == [told("worker-0", 2), told("worker-1", 2)]


def test_sync_messages_of_a_round_come_before_the_requests_of_the_next(engine):
    """Between round 0 and round 1 lies the message that round 0 caused, for every shard."""
    group = workers()
    flow = rf.from_actors(group).gather_sync().for_each(Broadcast(group))
    with flow.run(engine) as run:
        for _ in range(2):
            engine.complete("worker-0")
            engine.complete("worker-1")
            next(run)
        assert engine.drain(*TALK) == [
            *asked("worker-0", 0), *asked("worker-1", 0),
            told("worker-0", 1), told("worker-1", 1),
            *asked("worker-0", 1), *asked("worker-1", 1),
            told("worker-0", 2), told("worker-1", 2),
        ]  # fmt: skip


def test_sync_body_of_the_loop_belongs_to_the_round(engine):
    """A message sent by the user between two pulls precedes the requests of the next round."""
    group = workers(1)
    with rf.from_actors(group).gather_sync().run(engine) as run:
        engine.complete("worker-0")
        next(run)
        run.send(group, "set", 7, version=7)
        engine.complete("worker-0")
        next(run)
        assert engine.drain(*TALK) == [
            *asked("worker-0", 0), told("worker-0", 7), *asked("worker-0", 1)
        ]  # fmt: skip


def test_sync_flatten_holds_the_round_open_until_its_last_piece(engine):
    """The second round is requested when every item of the first has been passed on and done."""
    with rf.from_actors(workers()).gather_sync().flatten().run(engine) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-1", "b")
        assert [next(run), next(run)] == ["a", "b"]
        assert engine.drain("request") == [*asked("worker-0", 0), *asked("worker-1", 0)]
        engine.complete("worker-1", "d")
        engine.complete("worker-0", "c")
        assert next(run) == "c"
        assert engine.drain("request") == [*asked("worker-0", 1), *asked("worker-1", 1)]


def test_sync_partial_rounds_after_the_end_of_a_shard(engine):
    """A shard that has ended is left out of its round and of all later ones."""
    with rf.from_actors(workers()).gather_sync().run(engine) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-1", "b")
        assert next(run) == ["a", "b"]
        engine.end("worker-0")
        engine.complete("worker-1", "c")
        assert next(run) == ["c"]
        engine.drain()
        engine.complete("worker-1", "d")
        assert next(run) == ["d"]
        assert engine.drain("request") == asked("worker-1", 2)
        engine.end("worker-1")
        assert list(run) == []


def test_sync_asks_again_for_what_a_filter_in_the_actor_rejected(engine):
    """A shard whose operator kept or rejected the item is asked again within the round."""
    flow = rf.from_actors(workers()).filter(bool).gather_sync()
    with flow.run(engine) as run:
        engine.complete("worker-0", [], items=(), dropped=[(0, "filter(bool)")])
        engine.complete("worker-1", "b")
        engine.complete("worker-0", "a")
        assert next(run) == ["a", "b"]
        assert engine.drain("request") == [
            *asked("worker-0", 0), *asked("worker-1", 0), *asked("worker-0", 1)
        ]  # fmt: skip
        (line,) = run.ledger().balances()
        assert line.dropped == {"filtered by filter(bool)": 1}


def test_sync_answer_of_several_items_serves_several_rounds(engine):
    """A shard that answered with two items is not asked in the next round: it has one left."""
    flow = rf.from_actors(workers()).flatten().gather_sync()
    with flow.run(engine) as run:
        engine.complete("worker-0", ["a0", "a1"], items=[(0,), (0,)])
        engine.complete("worker-1", "b0")
        assert next(run) == ["a0", "b0"]
        engine.drain()
        engine.complete("worker-1", "b1")
        assert next(run) == ["a1", "b1"]
        assert engine.drain("request") == asked("worker-1", 1)


# -- as ready --------------------------------------------------------------------------------------


def test_async_asks_all_and_yields_in_order_of_arrival(engine):
    """At the start each shard has one request; items come out as they arrive."""
    with rf.from_actors(workers(3)).gather_async().run(engine) as run:
        engine.complete("worker-2", "c")
        engine.complete("worker-0", "a")
        assert [next(run), next(run)] == ["c", "a"]
        assert engine.drain("request")[:3] == [
            *asked("worker-0", 0), *asked("worker-1", 0), *asked("worker-2", 0)
        ]  # fmt: skip


def test_async_reissues_after_the_downstream_step(engine):
    """The next request of a shard follows the message that its item caused."""
    flow = rf.from_actors(workers()).gather_async().for_each(Publish())
    with flow.run(engine) as run:
        engine.complete("worker-0", "a")
        next(run)
        assert engine.drain(*TALK) == [
            *asked("worker-0", 0), *asked("worker-1", 0), told("worker-0", 1)
        ]  # fmt: skip
        engine.complete("worker-1", "b")
        next(run)
        assert engine.drain(*TALK) == [*asked("worker-0", 1), told("worker-1", 2)]


def test_async_body_of_the_loop_is_downstream(engine):
    """What the user sends in the loop's body goes out before the shard is asked again."""
    group = workers(1)
    with rf.from_actors(group).gather_async().run(engine) as run:
        engine.complete("worker-0")
        next(run)
        run.send(group[0], "set", 5, version=5)
        engine.complete("worker-0")
        next(run)
        assert engine.drain(*TALK) == [
            *asked("worker-0", 0), told("worker-0", 5), *asked("worker-0", 1)
        ]  # fmt: skip


def test_async_two_open_requests(engine):
    """With num_async=2 a shard has two requests open, and one answer leads to one request."""
    with rf.from_actors(workers(1)).gather_async(num_async=2).run(engine) as run:
        engine.complete("worker-0", "a")
        assert next(run) == "a"
        assert engine.drain("request") == asked("worker-0", 0, 1)
        assert engine.open_requests("worker-0") == [1]
        engine.complete("worker-0", "b")
        assert next(run) == "b"
        assert engine.drain("request") == asked("worker-0", 2)


def test_async_item_that_waits_keeps_its_request_open(engine):
    """Two answers that wait to be pulled leave no room for a third request."""
    with rf.from_actors(workers(1)).gather_async(num_async=2).run(engine) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-0", "b")
        assert next(run) == "a"
        assert engine.open_requests("worker-0") == []
        assert engine.drain("request") == asked("worker-0", 0, 1)


def test_async_flatten_reissues_after_the_last_piece(engine):
    """A request stays open until all pieces of its item are done with."""
    flow = rf.from_actors(workers(1)).gather_async().flatten()
    with flow.run(engine) as run:
        engine.complete("worker-0", ["a", "b"])
        assert [next(run), next(run)] == ["a", "b"]
        assert engine.drain("request") == asked("worker-0", 0)
        engine.complete("worker-0", ["c"])
        assert next(run) == "c"
        assert engine.drain("request") == asked("worker-0", 1)


def test_async_filter_in_the_driver_reissues_at_once(engine):
    """A rejected item is done: its shard is asked again within the same pull."""
    flow = rf.from_actors(workers(1)).gather_async().filter(lambda x: x == "keep")
    with flow.run(engine) as run:
        engine.complete("worker-0", "drop")
        engine.complete("worker-0", "keep")
        assert next(run) == "keep"
        assert engine.drain("request") == asked("worker-0", 0, 1)


def test_batch_absorbs(engine):
    """An item absorbed by a batch is done; the last one holds its request until the batch is."""
    flow = rf.from_actors(workers(1)).gather_async().batch(2).for_each(Publish())
    with flow.run(engine) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-0", "b")
        assert next(run) == ["a", "b"]
        assert engine.drain(*TALK) == [*asked("worker-0", 0, 1), told("worker-0", 1)]
        engine.complete("worker-0", "c")
        engine.complete("worker-0", "d")
        next(run)
        assert engine.drain(*TALK) == [*asked("worker-0", 2, 3), told("worker-0", 2)]


def test_batch_reaches_every_contributing_worker(engine):
    """A message to the sources of a batch goes to each worker that gave a part of it."""
    flow = rf.from_actors(workers()).gather_async().batch(2).for_each(Publish())
    with flow.run(engine) as run:
        engine.complete("worker-1", "b")
        engine.complete("worker-0", "a")
        assert next(run) == ["b", "a"]
        assert engine.drain("tell") == [told("worker-1", 1), told("worker-0", 1)]


def test_combine_absorbs_and_unites(engine):
    """While combine collects its inputs are done; what it emits comes from all of them."""
    seen = []

    def pairs(item):
        seen.append(item)
        return [tuple(seen[-2:])] if len(seen) % 2 == 0 else []

    flow = rf.from_actors(workers()).gather_async().combine(pairs).for_each(Publish())
    with flow.run(engine) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-1", "b")
        assert next(run) == ("a", "b")
        assert engine.drain(*TALK) == [
            *asked("worker-0", 0), *asked("worker-1", 0), *asked("worker-0", 1),
            told("worker-0", 1), told("worker-1", 1),
        ]  # fmt: skip


def test_a_version_is_sent_once_to_an_actor(engine):
    """The same version is not sent again to an actor that has it."""

    def announce(item, ctx):
        ctx.send(ctx.sources, "set", "w", version=3)
        return item

    flow = rf.from_actors(workers()).gather_async().for_each(announce)
    with flow.run(engine) as run:
        for actor in ("worker-0", "worker-0", "worker-1", "worker-0"):
            engine.complete(actor)
            next(run)
        assert [action[1] for action in engine.drain("tell")] == ["worker-0", "worker-1"]


def test_provenance_carries_the_version_at_issue(engine):
    """An item is stamped with the newest version its actor had been told before the request."""

    def versions(item, ctx):
        ctx.send(ctx.sources, "set", item, version=item)
        return [(source.actor, source.seq, source.version) for source in ctx.provenance]

    flow = rf.from_actors(workers(1)).gather_async(num_async=2).for_each(versions)
    with flow.run(engine) as run:
        out = []
        for version in (11, 12, 13):
            engine.complete("worker-0", version)
            out += next(run)
        assert out == [("worker-0", 0, 0), ("worker-0", 1, 0), ("worker-0", 2, 11)]


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
    """Each turn consumes one input: the sibling is served as often as the one that yields nothing."""
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
        lambda x: x, name="learner",
        inqueue=rf.Queue(capacity=room, name="in"), outqueue=rf.Queue(capacity=capacity, name="out"),
    )  # fmt: skip
    feed = (
        rf.from_actors(workers(1))
        .gather_async(num_async=num_async)
        .for_each(rf.Enqueue(learner.inqueue))
    )
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
        assert [a for a in engine.drain("request") if a[1] == "worker-0"] == asked("worker-0", 4)


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


# -- not ready -------------------------------------------------------------------------------------


def test_not_ready_is_asked_again_after_a_message_only(engine):
    """A parked shard is asked again by the next message to its actor, and by nothing else."""
    replay = workers(2, "replay")

    def store(item, ctx):
        if item != "skip":
            ctx.send(replay[item], "add", item)
        return item

    stored = rf.from_actors(workers(1)).gather_async().for_each(store)
    flow = rf.Concurrently(
        [stored, rf.from_actors(replay).gather_async()], mode="async", output_indexes=[0, 1]
    )
    with flow.run(engine) as run:
        engine.not_ready("replay-0")
        engine.not_ready("replay-1")
        engine.complete("worker-0", "skip")
        next(run)
        assert engine.open_requests("replay-0") == engine.open_requests("replay-1") == []
        engine.drain()
        engine.complete("worker-0", 1)
        next(run)
        assert engine.drain(*TALK) == [
            *asked("worker-0", 1), ("tell", "replay-1", "add", (1,), None), *asked("replay-1", 1)
        ]  # fmt: skip


def test_not_ready_is_no_item_in_the_ledger(engine):
    """A shard that was not ready has produced nothing."""
    group = workers(1)
    with rf.from_actors(group).gather_async().run(engine) as run:
        engine.not_ready("worker-0")
        with pytest.raises(rf.DeadlockError):
            next(run)
        (line,) = run.ledger().balances()
        assert (line.produced, line.in_flight, line.held) == (0, 0, 0)
        run.send(group, "add", 1)
        engine.complete("worker-0", "now")
        assert next(run) == "now"


# -- failure ---------------------------------------------------------------------------------------


def test_lost_worker_raises_and_the_flow_goes_on_with_the_others(engine):
    """Under `raise` the loss is raised once; the other worker is served by the next pull."""
    with rf.from_actors(workers()).gather_async().run(engine) as run:
        engine.lose("worker-0", "its process was killed")
        with pytest.raises(rf.WorkerLost, match=r"worker-0.*its process was killed"):
            next(run)
        engine.complete("worker-1", "b")
        assert next(run) == "b"
        (line,) = run.ledger().balances()
        assert line.dropped == {"worker_lost": 1}
        assert line.balanced


def test_restart_sends_the_newest_weights_before_the_first_request(engine):
    """A new incarnation is started, taught its pipeline, given the weights, then asked."""
    group = workers()
    flow = rf.from_actors(group).gather_async().for_each(Broadcast(group))
    with flow.run(engine, on_failure="restart") as run:
        for actor in ("worker-0", "worker-1"):
            engine.complete(actor)
            next(run)
        engine.drain()
        engine.lose("worker-0")
        engine.advance(0.0)
        engine.complete("worker-0", "back")
        assert next(run) == "back"
        actions = [action for action in engine.drain() if action[1] == "worker-0"]
        assert actions == [
            ("kill", "worker-0"), ("start", "worker-0", 1),
            ("install", "worker-0", "gather_async/0"), told("worker-0", 2),
            ("request", "worker-0", 2), told("worker-0", 3),
        ]  # fmt: skip
        assert run.workers()["worker-0"] == {
            "status": "live", "incarnation": 1, "pid": None, "restarts": 1, "errors": 0, "in_flight": 0
        }  # fmt: skip


def test_restart_pauses_longer_each_time(engine):
    """The first restart is at once; later ones wait, twice as long each time."""
    policy = rf.FailurePolicy(on_lost="restart", backoff=1.0)
    with rf.from_actors(workers(1)).gather_async().run(engine, on_failure=policy) as run:
        engine.lose("worker-0")
        engine.advance(0.0)
        engine.lose("worker-0")
        engine.advance(1.0)
        engine.lose("worker-0")
        engine.advance(2.0)
        engine.complete("worker-0", "at last")
        assert next(run) == "at last"
        assert engine.clock == 3.0
        assert engine.drain("start") == [("start", "worker-0", i) for i in range(4)]


def test_restart_gives_up(engine):
    """After max_restarts within the window the last error is raised, with a note that says so."""
    policy = rf.FailurePolicy(on_lost="restart", max_restarts=1)
    with rf.from_actors(workers()).gather_async().run(engine, on_failure=policy) as run:
        engine.lose("worker-0")
        engine.advance(0.0)
        engine.lose("worker-0")
        with pytest.raises(rf.WorkerLost) as caught:
            next(run)
        assert "given up on actor 'worker-0'" in caught.value.__notes__[0]
        engine.complete("worker-1", "b")
        assert next(run) == "b"
        assert run.workers()["worker-0"]["status"] == "gone"


def test_shrink_goes_on_without_the_worker(engine):
    """Under `shrink` the round is completed by those who are left."""
    with rf.from_actors(workers()).gather_sync().run(engine, on_failure="shrink") as run:
        engine.lose("worker-0")
        engine.complete("worker-1", "b")
        assert next(run) == ["b"]
        assert engine.drain("kill") == [("kill", "worker-0")]
        engine.complete("worker-1", "c")
        assert next(run) == ["c"]
        assert run.counters["shrunk"] == 1


def test_shrink_raises_when_nobody_is_left(engine):
    """Losing the last worker of a group raises, whatever the policy."""
    with rf.from_actors(workers(1)).gather_async().run(engine, on_failure="shrink") as run:
        engine.lose("worker-0")
        with pytest.raises(rf.WorkerLost) as caught:
            next(run)
        assert "no actor of group 'worker' is left" in caught.value.__notes__


def test_shrink_by_error_forgets_the_other_requests_of_the_worker(engine):
    """A worker that leaves because its code raised takes its other open requests with it."""
    flow = rf.from_actors(workers()).gather_async(num_async=2)
    with flow.run(engine, on_failure="shrink") as run:
        engine.fail("worker-0")
        engine.complete("worker-1", "b")
        assert next(run) == "b"
        assert run.stats().operator("gather_async(num_async=2)").in_flight == 1
        engine.end("worker-1")
        engine.end("worker-1")
        assert list(run) == []
        (line,) = run.ledger().balances()
        assert line.dropped == {"error": 1, "worker_lost": 1}
        assert line.balanced


def test_restart_by_error_takes_the_other_requests_down(engine):
    """When user code raised and the actor restarts, its other open request is made anew."""
    flow = rf.from_actors(workers(1)).gather_async(num_async=2)
    with flow.run(engine, on_failure="restart") as run:
        engine.fail("worker-0")
        engine.advance(0.0)
        engine.complete("worker-0", "a")
        assert next(run) == "a"
        assert engine.drain("request", "start") == [
            ("start", "worker-0", 0), *asked("worker-0", 0, 1),
            ("start", "worker-0", 1), *asked("worker-0", 2, 3),
        ]  # fmt: skip
        (line,) = run.ledger().balances()
        assert line.dropped == {"error": 1, "worker_lost": 1}
        assert line.balanced


def test_late_result_is_rejected(engine):
    """An answer of a dead incarnation is counted and thrown away."""
    with rf.from_actors(workers(1)).gather_async().run(engine, on_failure="restart") as run:
        engine.lose("worker-0")
        engine.advance(0.0)
        engine.complete("worker-0", "from the dead", seq=0, incarnation=0)
        engine.complete("worker-0", "alive")
        assert next(run) == "alive"
        assert run.counters["late_rejected"] == 1
        (line,) = run.ledger().balances()
        assert line.dropped == {"worker_lost": 1}
        assert line.balanced


def test_retry_is_a_new_request(engine):
    """A retried request has a new sequence number; the failed one is dropped as retried."""
    with rf.from_actors(workers(1)).gather_async().run(engine, on_failure="retry") as run:
        engine.fail("worker-0")
        engine.fail("worker-0")
        engine.complete("worker-0", "a")
        assert next(run) == "a"
        assert engine.drain("request") == asked("worker-0", 0, 1, 2)
        (line,) = run.ledger().balances()
        assert line.dropped == {"retried": 2}


def test_retry_has_a_limit(engine):
    """After max_retries failures in a row the error is raised; a success begins a new count."""
    policy = rf.FailurePolicy(on_error="retry", max_retries=1)
    with rf.from_actors(workers(1)).gather_async().run(engine, on_failure=policy) as run:
        engine.fail("worker-0")
        engine.complete("worker-0", "a")
        assert next(run) == "a"
        engine.fail("worker-0")
        engine.fail("worker-0", LookupError("the second in a row"))
        with pytest.raises(LookupError, match="the second in a row"):
            next(run)
        engine.complete("worker-0", "b")
        assert next(run) == "b"


def test_drop_asks_for_the_next(engine):
    """Under `drop` the failed item is counted and its shard is asked for another."""
    with rf.from_actors(workers(1)).gather_sync().run(engine, on_failure="drop") as run:
        engine.fail("worker-0")
        engine.complete("worker-0", "a")
        assert next(run) == ["a"]
        (line,) = run.ledger().balances()
        assert line.dropped == {"error": 1}


def test_error_is_raised_and_the_flow_goes_on(engine):
    """After a raised error the same worker is asked again, and every counter is kept."""
    with rf.from_actors(workers(1)).gather_async().run(engine) as run:
        engine.complete("worker-0", "a")
        next(run)
        engine.fail("worker-0", ZeroDivisionError("once"))
        with pytest.raises(ZeroDivisionError, match="once"):
            next(run)
        engine.complete("worker-0", "b")
        assert next(run) == "b"
        assert engine.drain("request") == asked("worker-0", 0, 1, 2)
        assert run.stats().operator("gather_async").items == 2


def test_error_in_a_message_handler_is_raised(engine):
    """A message that fails has no item to drop: it raises even under `drop`."""
    with rf.from_actors(workers(1)).gather_async().run(engine, on_failure="drop") as run:
        engine.fail("worker-0", LookupError("bad weights"), operator="set", message=True)
        with pytest.raises(LookupError, match="bad weights") as caught:
            next(run)
        assert "set" in str(caught.value)


def test_constructor_that_raises_is_a_start_error(engine):
    """An actor whose constructor raised is lost, and the error says which constructor."""
    with rf.from_actors(workers(1)).gather_async().run(engine) as run:
        engine.lose("worker-0", "its constructor raised", error=OSError("no such game"))
        with pytest.raises(rf.ActorStartError, match="no such game") as caught:
            next(run)
        assert "worker (constructor)" in str(caught.value)
        assert isinstance(caught.value.__cause__, OSError)


def test_hung_worker_is_killed_and_restarted(engine):
    """A request that takes longer than `timeout` makes its actor lost."""
    policy = rf.FailurePolicy(on_lost="restart", timeout=5.0)
    with rf.from_actors(workers()).gather_async().run(engine, on_failure=policy) as run:
        engine.advance(4.0)
        engine.complete("worker-1", "b")
        engine.advance(1.0)
        engine.complete("worker-0", "a")
        assert [next(run), next(run)] == ["b", "a"]
        assert ("kill", "worker-0") in engine.actions
        assert ("kill", "worker-1") not in engine.actions
        (line,) = run.ledger().balances()
        assert line.dropped == {"worker_lost": 1}
        assert run.workers()["worker-0"]["incarnation"] == 1


def test_answered_request_is_never_overdue(engine):
    """The deadline of a request that was answered in time means nothing."""
    policy = rf.FailurePolicy(timeout=5.0)
    with rf.from_actors(workers(1)).gather_async().run(engine, on_failure=policy) as run:
        engine.advance(4.0)
        engine.complete("worker-0", "a")
        assert next(run) == "a"
        engine.advance(4.0)
        engine.complete("worker-0", "b")
        assert next(run) == "b"
        assert engine.drain("kill") == []


# -- membership ------------------------------------------------------------------------------------


def test_added_worker_gets_the_weights_before_its_first_request(engine):
    """A worker that joins is started, given the newest weights, taught its pipeline, then asked."""
    group = workers(1)
    flow = rf.from_actors(group).gather_async().for_each(Broadcast(group))
    with flow.run(engine) as run:
        engine.complete("worker-0")
        next(run)
        engine.drain()
        assert run.add_workers() == ["worker-1"]
        assert sorted(engine.drain()) == sorted([
            ("start", "worker-1", 0), ("install", "worker-1", "gather_async/1"),
            told("worker-1", 1), *asked("worker-1", 0),
        ])  # fmt: skip
        assert engine.actions.index(told("worker-1", 1)) < engine.actions.index(
            ("request", "worker-1", 0)
        )
        engine.complete("worker-1", "new")
        assert next(run) == "new"


def test_worker_added_during_a_round_joins_the_next(engine):
    """With a round in the user's hands the newcomer is asked when the next round begins."""
    with rf.from_actors(workers(1)).gather_sync().run(engine) as run:
        engine.complete("worker-0", "a")
        next(run)
        run.add_workers()
        assert engine.open_requests("worker-1") == []
        engine.complete("worker-0", "b")
        engine.complete("worker-1", "c")
        assert next(run) == ["b", "c"]


def test_removed_worker_delivers_what_it_was_asked_for(engine):
    """A removed worker is asked no more, and ends when its open request is answered."""
    with rf.from_actors(workers()).gather_async().run(engine) as run:
        engine.complete("worker-1", "b")
        next(run)
        run.remove_worker("worker-0")
        assert engine.drain("kill") == []
        engine.complete("worker-0", "a")
        assert next(run) == "a"
        assert engine.drain("kill") == [("kill", "worker-0")]
        engine.complete("worker-1", "b")
        next(run)
        assert engine.open_requests("worker-0") == []


def test_removed_worker_delivers_its_part_of_a_round(engine):
    """What a removed worker was asked for is not lost, even when nobody else is left."""
    with rf.from_actors(workers()).gather_sync().run(engine) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-1", "b")
        next(run)
        engine.complete("worker-0", "c")
        with pytest.raises(AssertionError, match="waits for events"):
            next(run)  # worker-1 has been asked and has not answered
        run.remove_worker("worker-1")
        engine.complete("worker-1", "d")
        engine.end("worker-0")
        rounds = list(run)
        assert sorted(item for part in rounds for item in part) == ["c", "d"]


def test_removed_idle_worker_ends_at_once(engine):
    """A worker without an open request is killed when it is removed."""
    with rf.from_actors(workers()).gather_sync().run(engine) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-1", "b")
        next(run)
        run.remove_worker("worker-0")
        assert engine.drain("kill") == [("kill", "worker-0")]
        engine.complete("worker-1", "c")
        assert next(run) == ["c"]


# -- the end ---------------------------------------------------------------------------------------


def test_flow_ends_when_all_shards_have(engine):
    """The flow ends after the last shard, and the engine is closed."""
    with rf.from_actors(workers()).gather_async().run(engine) as run:
        engine.end("worker-0")
        engine.complete("worker-1", "b")
        assert next(run) == "b"
        engine.end("worker-1")
        assert list(run) == []
        assert engine.drain("close") == [("close",)]


def test_end_with_items_left_in_the_actor(engine):
    """What an operator inside the actor still held comes out with the end of the shard."""
    flow = rf.from_actors(workers(1)).batch(2).gather_async()
    with flow.run(engine) as run:
        engine.complete("worker-0", [], items=())
        engine.complete("worker-0", ["a", "b"], items=[(0, 1)])
        assert next(run) == ["a", "b"]
        engine.complete("worker-0", [], items=())
        engine.complete("worker-0", ["c"], items=[(2,)], ended=True)
        assert list(run) == [["c"]]
        (line,) = run.ledger().balances()
        assert (line.produced, line.done) == (3, {"delivered": 3})


def test_batch_in_the_driver_flushes_at_the_end(engine):
    """The last, shorter batch comes out when its input ends."""
    with rf.from_actors(workers(1)).gather_async().batch(2).run(engine) as run:
        engine.complete("worker-0", "a")
        engine.end("worker-0")
        assert list(run) == [["a"]]


def test_deadlock_is_an_error_not_a_hang(engine):
    """When no event can come any more, an error explains what everybody waits for."""
    with rf.from_actors(workers()).gather_sync().run(engine) as run:
        engine.complete("worker-0", "a")
        engine.not_ready("worker-1")
        with pytest.raises(rf.DeadlockError, match="1 waiting for a message"):
            next(run)


def test_script_without_events_fails_instead_of_hanging(engine):
    """A flow that waits for what is not in the script fails the test."""
    with (
        rf.from_actors(workers(1)).gather_async().run(engine) as run,
        pytest.raises(AssertionError, match="the flow waits for events; the script has none"),
    ):
        next(run)
