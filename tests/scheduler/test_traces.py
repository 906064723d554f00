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
        assert engine.drain(*TALK) == [
            told("worker-0", 1), *asked("worker-0", 1), told("worker-1", 1), *asked("worker-1", 1)
        ]  # fmt: skip


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
            told("worker-0", 1), *asked("worker-0", 1),
            told("worker-1", 1), *asked("worker-1", 1),
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
        assert engine.drain(*TALK) == [*asked("worker-0", 0), *asked("worker-1", 0)]
        engine.complete("worker-1", "b")
        next(run)
        assert engine.drain(*TALK) == [told("worker-0", 1), *asked("worker-0", 1)]


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
        assert engine.drain(*TALK) == asked("worker-0", 0, 1)
        engine.complete("worker-0", "c")
        engine.complete("worker-0", "d")
        next(run)
        assert engine.drain(*TALK) == [told("worker-0", 1), *asked("worker-0", 2, 3)]


def test_batch_reaches_every_contributing_worker(engine):
    """A message to the sources of a batch goes to each worker that gave a part of it."""
    flow = rf.from_actors(workers()).gather_async().batch(2).for_each(Publish())
    with flow.run(engine) as run:
        engine.complete("worker-1", "b")
        engine.complete("worker-0", "a")
        assert next(run) == ["b", "a"]
        engine.complete("worker-1", "d")
        engine.complete("worker-0", "c")
        next(run)
        assert sorted(engine.drain("tell")) == [told("worker-0", 1), told("worker-1", 1)]


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
            *asked("worker-0", 0), *asked("worker-1", 0), *asked("worker-0", 1)
        ]  # fmt: skip
        engine.complete("worker-0", "c")
        engine.complete("worker-1", "d")
        assert next(run) == ("c", "d")
        assert sorted(engine.drain("tell")) == [told("worker-0", 1), told("worker-1", 1)]


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


# -- messages with a version -----------------------------------------------------------------------


def test_the_newest_version_leaves_with_the_next_request(engine):
    """Two leave at once; of those that follow before one is handled, the last is enough."""
    group = workers(1)
    with rf.from_actors(group).gather_async().run(engine) as run:
        engine.complete("worker-0")
        next(run)
        for version in (1, 2, 3, 4):
            run.send(group, "set", version, version=version)
        engine.complete("worker-0")
        next(run)
        assert engine.drain(*TALK) == [
            *asked("worker-0", 0), told("worker-0", 1), told("worker-0", 2), told("worker-0", 4),
            *asked("worker-0", 1),
        ]  # fmt: skip
        (line,) = run.ledger().messages
        assert (line.sent, line.handled, line.lost) == (4, 3, {"superseded": 1})
        assert line.balanced


def test_messages_keep_their_order(engine):
    """One without a version is never lost, and those before it leave before it."""
    group = workers(1)
    with rf.from_actors(group).gather_async().run(engine) as run:
        engine.complete("worker-0")
        next(run)
        run.send(group, "set", 1, version=1)
        run.send(group, "add", "a")
        run.send(group, "add", "b")
        run.send(group, "set", 2, version=2)
        engine.complete("worker-0")
        next(run)
        assert engine.drain("tell") == [
            told("worker-0", 1),
            ("tell", "worker-0", "add", ("a",), None), ("tell", "worker-0", "add", ("b",), None),
            told("worker-0", 2),
        ]  # fmt: skip


def test_versions_of_several_kinds_leave_in_the_order_of_the_newest(engine):
    """Each `key` has its own newest message."""
    group = workers(1)

    def both(item, ctx):
        for key, version in (("p", 1), ("q", 1), ("p", 2)):
            ctx.send(ctx.sources, "set", version, version=version, key=key)
        return item

    with rf.from_actors(group).gather_async().for_each(both).run(engine) as run:
        for _ in range(2):
            engine.complete("worker-0")
            next(run)
        assert engine.drain("tell") == [told("worker-0", 1), told("worker-0", 2)]


def test_who_is_never_asked_is_told_before_the_user_goes_on(engine):
    """An actor that only listens gets its messages too, with the step that sent them."""
    listener = workers(1, "listener")

    def announce(item, ctx):
        ctx.send(listener, "set", item, version=item)
        return item

    with rf.from_actors(workers(1)).gather_async().for_each(announce).run(engine) as run:
        for version in (1, 2):
            engine.complete("worker-0", version)
            next(run)
            assert engine.drain("tell") == [told("listener-0", version)]


def test_a_question_comes_behind_the_messages(engine):
    """`run.call` sees the actor as the messages before it have left it."""
    group = workers(1)
    with rf.from_actors(group).gather_async().run(engine) as run:
        engine.complete("worker-0")
        next(run)
        engine.drain()
        run.send(group, "set", 4, version=4)
        engine.complete("worker-0", 4)
        assert run.call(group[0], "get") == 4
        assert engine.drain("tell", "call")[0] == told("worker-0", 4)


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


def test_not_ready_that_crosses_a_message_is_asked_again(engine):
    """A message sent after the request, before its answer came in, is not forgotten."""
    replay = workers(1, "replay")

    def store(item, ctx):
        ctx.send(replay, "add", item)
        return item

    stored = rf.from_actors(workers(1)).gather_async().for_each(store)
    flow = rf.Union(stored, rf.from_actors(replay).gather_async())
    with flow.run(engine) as run:
        engine.complete("worker-0", 1)
        assert next(run) == 1  # replay-0 is told before its answer to request 0 is known
        engine.end("worker-0")
        engine.not_ready("replay-0")
        engine.complete("replay-0", "replayed")
        assert next(run) == "replayed"
        assert [a for a in engine.drain(*TALK) if a[1] == "replay-0"] == [
            *asked("replay-0", 0), ("tell", "replay-0", "add", (1,), None), *asked("replay-0", 1)
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
