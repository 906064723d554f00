"""Events in, actions out, when workers fail."""

import pytest

import rillflow as rf
from tests.scheduler.parts import Broadcast, asked, told, workers

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
            told("worker-0", 2), ("kill", "worker-0"), ("start", "worker-0", 1),
            ("install", "worker-0", "gather_async/from_actors(Worker.next)"),
            told("worker-0", 2), ("request", "worker-0", 2),
        ]  # fmt: skip
        worker = run.workers()["worker-0"]
        assert (worker["status"], worker["incarnation"], worker["restarts"]) == ("live", 1, 1)


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
