"""The end of a finite flow: who is still told something, and who is waited for."""

import pytest

import rillflow as rf
from tests.scheduler.parts import Publish, workers

REACHED = ("call", "listener-0", "reached", None)


@pytest.fixture
def listener():
    """An actor that is told things and never asked for any."""
    return workers(1, name="listener")


def flow_that_announces(listener, items, num_async=1):
    def announce(item, ctx):
        ctx.send(listener, "set", item)
        return item

    gathered = rf.from_actors(workers(1)).gather_async(num_async=num_async)
    return gathered.for_each(announce).limit(items)


def test_the_last_message_is_waited_for(engine, listener):
    """After the last item a question follows the messages; the flow ends with its answer."""
    with flow_that_announces(listener, 2).run(engine) as run:
        for item in ("a", "b"):
            engine.complete("worker-0", item)
            assert next(run) == item
        engine.drain()
        engine.complete("listener-0")
        assert next(run, "ended") == "ended"
        assert engine.drain("call", "close") == [REACHED, ("close",)]


def test_an_error_in_the_last_message_is_raised(engine, listener):
    """What an actor makes of the last message is not lost with it."""
    with flow_that_announces(listener, 1).run(engine) as run:
        engine.complete("worker-0", "a")
        next(run)
        engine.fail("listener-0", ValueError("cannot write"), operator="set", message=True)
        with pytest.raises(rf.OperatorError, match="cannot write"):
            next(run)


def test_a_listener_that_dies_at_the_end_is_reported(engine, listener):
    """It is lost as at any other time."""
    with flow_that_announces(listener, 1).run(engine) as run:
        engine.complete("worker-0", "a")
        next(run)
        engine.lose("listener-0")
        with pytest.raises(rf.WorkerLost, match="listener-0"):
            next(run)


def test_new_weights_keep_no_busy_worker_waited_for(engine):
    """Nobody will ask it again: the flow ends while it still works on its last request."""
    with (
        rf.from_actors(workers(1))
        .gather_async(num_async=2)
        .for_each(Publish())
        .limit(1)
        .run(engine) as run
    ):
        engine.complete("worker-0", "a")
        next(run)
        assert next(run, "ended") == "ended"
        assert engine.drain("call") == []


def test_what_comes_in_at_the_end_is_followed_by_no_request(engine, listener):
    """An item that arrives while the last messages are waited for is counted, not answered."""
    with flow_that_announces(listener, 1, num_async=2).run(engine) as run:
        engine.complete("worker-0", "a")
        next(run)
        engine.drain()
        engine.complete("worker-0", "late")
        engine.complete("listener-0")
        assert next(run, "ended") == "ended"
        assert [action[0] for action in engine.drain()] == ["call", "close"]
        assert run.ledger().balanced
        (items, *_) = run.ledger().balances()
        assert items.dropped == {"reader ended": 1}
