"""Events in, actions out, under the policies of training runs."""

import pytest

import rillflow as rf
from tests.scheduler.parts import workers

SUPERVISED = rf.FailurePolicy(
    on_error="restart", on_lost="restart", max_restarts=2, in_a_row=True, trial=True,
    fatal=("LookupError",), backoff=0.0,
)  # fmt: skip


def flow_of(count=1, **options):
    return rf.from_actors(workers(count, **options)).gather_async()


def test_what_raises_before_anything_was_delivered_is_raised_at_once(engine):
    with flow_of().run(engine, on_failure=SUPERVISED) as run:
        engine.fail("worker-0", ValueError("a bug"))
        with pytest.raises(ValueError, match="a bug"):
            next(run)
        assert run.workers()["worker-0"]["restarts"] == 0


def test_a_constructor_that_never_worked_is_raised_at_once(engine):
    with flow_of().run(engine, on_failure=SUPERVISED) as run:
        engine.lose("worker-0", error=ValueError("no such file"))
        with pytest.raises(rf.ActorStartError, match="no such file"):
            next(run)


def test_a_loss_is_no_bug_even_if_nothing_was_delivered(engine):
    with flow_of().run(engine, on_failure=SUPERVISED) as run:
        engine.lose("worker-0")
        engine.advance(0.0)
        engine.complete("worker-0", "a")
        assert next(run) == "a"


def test_not_ready_is_no_delivery(engine):
    """Else a replay actor whose messages raise would be restarted for ever."""
    with flow_of(2).run(engine, on_failure=SUPERVISED) as run:
        engine.not_ready("worker-0")
        engine.fail("worker-0", ValueError("a bug"), message=True)
        with pytest.raises(ValueError, match="a bug"):
            next(run)


def test_a_worker_that_was_proven_is_restarted_and_that_is_told(engine):
    told = []
    with flow_of().run(engine, on_failure=SUPERVISED) as run:
        run.on_fault(told.append)
        engine.complete("worker-0", "a")
        next(run)
        engine.fail("worker-0", ValueError("now and then\nand more"))
        engine.advance(0.0)
        engine.complete("worker-0", "b")
        assert next(run) == "b"
        assert told == ["ValueError: now and then; worker-0 is restarted (1 of 2)"]
        assert run.ledger().balanced


def test_of_many_failures_that_cost_an_item_each_some_are_told(engine):
    """A thousand lines that say the same hide the one that says something else."""
    told = []
    with flow_of().run(engine, on_failure=rf.FailurePolicy(on_error="drop")) as run:
        run.on_fault(told.append)
        for number in range(40):
            engine.fail("worker-0", ValueError("now and then"))
            engine.complete("worker-0", number)
            assert next(run) == number
        assert told[0] == "worker-0 failed and goes on without that item: ValueError: now and then"
        numbers = [line.partition("(failure ")[2].partition(")")[0] for line in told[1:]]
        assert numbers == ["2", "3", "10", "30"]
        assert run.workers()["worker-0"]["errors"] == 40


def test_exceptions_of_some_names_are_always_raised(engine):
    with flow_of().run(engine, on_failure=SUPERVISED) as run:
        engine.complete("worker-0", "a")
        next(run)
        engine.fail("worker-0", LookupError("a broken promise"))
        with pytest.raises(LookupError, match="broken promise"):
            next(run)


def test_losses_after_answers_are_counted_anew(engine):
    """A machine that kills processes again and again slows a run, and does not end it."""
    with flow_of().run(engine, on_failure=SUPERVISED) as run:
        for number in range(10):
            engine.lose("worker-0")
            engine.advance(0.0)
            engine.complete("worker-0", number)
            assert next(run) == number


def test_losses_without_an_answer_between_them_end_the_run(engine):
    with flow_of().run(engine, on_failure=SUPERVISED) as run:
        engine.complete("worker-0", "a")
        next(run)
        for _ in range(3):
            engine.lose("worker-0", "gone")
            engine.advance(0.0)
        with pytest.raises(rf.WorkerLost, match="gone") as lost:
            next(run)
        assert "restarted 2 times within 60 s" in lost.value.__notes__[0]


def test_what_raises_again_and_again_ends_the_run_though_it_answers_between(engine):
    with flow_of().run(engine, on_failure=SUPERVISED) as run:
        for number in range(3):
            engine.complete("worker-0", number)
            assert next(run) == number
            engine.fail("worker-0", ValueError("broken"))
            engine.advance(0.0)
        with pytest.raises(ValueError, match="broken"):
            next(run)


# -- deadlines -------------------------------------------------------------------------------------


def hung(**options):
    timeout = rf.Adaptive(times=10.0, least=5.0, first=100.0)
    return rf.FailurePolicy(on_lost="raise", timeout=timeout, **options)


def test_a_deadline_follows_the_slowest_answer(engine):
    with flow_of().run(engine, on_failure=hung()) as run:
        engine.advance(2.0)
        engine.complete("worker-0", "slow")
        assert next(run) == "slow"
        for _ in range(19):
            engine.advance(1.0)
        engine.complete("worker-0", "much slower, and in time")
        assert next(run) == "much slower, and in time"
        for _ in range(1000):
            engine.advance(0.4)
        with pytest.raises(rf.WorkerLost, match="hung: no answer for 190 s"):
            next(run)


def test_who_never_answered_has_the_time_of_the_group(engine):
    with flow_of(2).run(engine, on_failure=hung()) as run:
        engine.advance(0.1)
        engine.complete("worker-1", "b")
        assert next(run) == "b"
        engine.complete("worker-1", "c")
        assert next(run) == "c"
        for _ in range(30):
            engine.advance(0.25)
        with pytest.raises(rf.WorkerLost, match=r"worker-0.*no answer for 5 s"):
            next(run)


def test_a_driver_that_was_away_does_not_blame_the_actor(engine):
    """A checkpoint, or Ctrl-Z: the answer may have waited, or the request."""
    with flow_of().run(engine, on_failure=rf.FailurePolicy(timeout=5.0)) as run:
        engine.advance(1000.0)
        engine.advance(0.1)
        engine.complete("worker-0", "it was there all the time")
        assert next(run) == "it was there all the time"


# -- to be made anew -------------------------------------------------------------------------------


def test_who_asks_for_it_is_made_anew_and_nothing_counts_it(engine):
    told = []
    with flow_of().run(engine, on_failure="raise") as run:
        run.on_fault(told.append)
        for number in range(10):
            engine.complete("worker-0", number)
            assert next(run) == number
            engine.fail("worker-0", rf.Recycle("it is too large"))
            engine.advance(0.0)
        engine.complete("worker-0", "last")
        assert next(run) == "last"
        assert told == ["worker-0 is made anew: it is too large"] * 10
        worker = run.workers()["worker-0"]
        assert (worker["incarnation"], worker["restarts"], worker["errors"]) == (10, 0, 0)
        (line,) = run.ledger().balances()
        assert line.dropped == {"recycled": 10}
        assert line.balanced


def test_who_asks_for_it_before_it_has_answered_has_failed(engine):
    with flow_of().run(engine, on_failure="restart") as run:
        for _ in range(6):
            engine.fail("worker-0", rf.Recycle("it is too large"))
            engine.advance(10.0)
        with pytest.raises(rf.RunError, match="too large"):
            next(run)


# -- what is waited for ----------------------------------------------------------------------------


def test_for_whom_the_driver_waits_is_seen_while_it_waits(engine):
    with flow_of(2).run(engine, on_failure=rf.FailurePolicy(timeout=40.0)) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-1", "b")
        assert [next(run), next(run)] == ["a", "b"]  # so only worker-0 has been asked again
        times = run._driver.times
        times.begin, times.waits_since, engine.clock = 0.0, 0.0, 12.0
        assert run.stats().verdict == "Waiting for worker-0 for 12 s; replaced after 40 s."
        assert run.stats().driver_waiting == 1.0
        times.waits_since = None
        assert "Waiting" not in run.stats().verdict
