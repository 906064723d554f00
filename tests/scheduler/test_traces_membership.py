"""Events in, actions out, when workers join and leave, and at the edges of supervision."""

import pytest

import rillflow as rf
from tests.scheduler.parts import Broadcast, asked, told, workers

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
            ("start", "worker-1", 0),
            ("install", "worker-1", "gather_async/from_actors(Worker.next)"),
            told("worker-1", 1), *asked("worker-1", 0), told("worker-0", 1),
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
    """The round waits for what a removed worker was asked for, even when nobody else is left."""
    with rf.from_actors(workers()).gather_sync().run(engine) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-1", "b")
        next(run)
        engine.end("worker-0")
        with pytest.raises(AssertionError, match="waits for events"):
            next(run)  # worker-1 has been asked and has not answered
        run.remove_worker("worker-1")
        engine.complete("worker-1", "c")
        assert list(run) == [["c"]]
        assert ("kill", "worker-1") in engine.drain()
        assert engine.open_requests("worker-1") == []


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


# -- the edges of supervision ----------------------------------------------------------------------


def test_request_that_waited_behind_another_is_not_overdue(engine):
    """An actor works on one request at a time: the deadline of the second starts with its turn."""
    policy = rf.FailurePolicy(timeout=5.0)
    flow = rf.from_actors(workers(1)).gather_async(num_async=2)
    with flow.run(engine, on_failure=policy) as run:
        engine.advance(4.0)
        engine.complete("worker-0", "a")
        assert next(run) == "a"
        engine.advance(4.0)  # 8 s after it was issued, 4 s after its turn came
        engine.complete("worker-0", "b")
        assert next(run) == "b"
        assert engine.drain("kill") == []


def test_second_request_is_overdue_in_its_own_time(engine):
    """When its turn has come, the second request has its own deadline."""
    policy = rf.FailurePolicy(timeout=5.0)
    flow = rf.from_actors(workers(1)).gather_async(num_async=2)
    with flow.run(engine, on_failure=policy) as run:
        engine.advance(4.0)
        engine.complete("worker-0", "a")
        assert next(run) == "a"
        engine.advance(5.0)
        with pytest.raises(rf.WorkerLost, match="hung"):
            next(run)


def test_call_of_a_gone_actor_is_an_error(engine):
    """Asking an actor that will not come back raises; it does not wait."""
    with rf.from_actors(workers()).gather_async().run(engine, on_failure="shrink") as run:
        engine.lose("worker-0")
        engine.complete("worker-1", "b")
        next(run)
        with pytest.raises(rf.RunError, match="worker-0"):
            run.call("worker-0", "next")


def test_call_of_an_actor_that_dies_is_an_error(engine):
    """A question that its actor took to the grave is not answered with None."""
    with rf.from_actors(workers(1)).gather_async().run(engine, on_failure="restart") as run:
        engine.complete("worker-0", "a")
        next(run)
        engine.lose("worker-0")
        with pytest.raises(rf.WorkerLost, match="worker-0"):
            run.call("worker-0", "next")


def test_actor_that_dies_while_it_is_saved_spoils_no_state(engine):
    """A state that misses an actor is not given out as if it were whole."""
    with rf.from_actors(workers(1)).gather_sync().run(engine, on_failure="restart") as run:
        engine.complete("worker-0", "a")
        next(run)
        engine.lose("worker-0")
        with pytest.raises(rf.RunError):
            run.get_state()


def test_worker_removed_while_it_waits_for_a_restart_stays_away(engine):
    """A worker removed during the pause before a restart is not brought back."""
    policy = rf.FailurePolicy(on_lost="restart", backoff=10.0)
    with rf.from_actors(workers()).gather_async().run(engine, on_failure=policy) as run:
        engine.lose("worker-0")
        engine.advance(0.0)
        engine.lose("worker-0")
        engine.complete("worker-1", "b")
        next(run)
        assert run.workers()["worker-0"]["status"] == "waiting"
        run.remove_worker("worker-0")
        engine.drain()
        engine.advance(20.0)
        engine.complete("worker-1", "c")
        assert next(run) == "c"
        assert engine.drain("start") == []
        assert run.workers()["worker-0"]["status"] == "gone"


def test_removing_a_worker_twice_is_harmless(engine):
    """The second removal changes nothing."""
    with rf.from_actors(workers()).gather_async().run(engine) as run:
        engine.complete("worker-1", "b")
        next(run)
        run.remove_worker("worker-0")
        run.remove_worker("worker-0")
        engine.complete("worker-0", "a")
        assert next(run) == "a"
        assert engine.drain("kill") == [("kill", "worker-0")]
