"""Operators on their own thread or process, between two queues."""

import pytest

import rillflow as rf
from rillflow.engines.sim import Sim
from rillflow.testing import Kill, flow_of
from tests.ops.parts import Count, Total, everything


class Broken:
    """Works twice, then raises for ever."""

    def __init__(self):
        self.calls = 0

    def __call__(self, item):
        self.calls += 1
        if self.calls > 2:
            raise LookupError(f"lost my way at call {self.calls}")
        return item


def learner(fn, source, *, capacity=2, **options):
    background = rf.Background(
        fn, name="learner",
        inqueue=rf.Queue(capacity=capacity, name="in"),
        outqueue=rf.Queue(capacity=capacity, name="out"),
        **options,
    )  # fmt: skip
    feed = source.for_each(rf.Enqueue(background.inqueue))
    return rf.Concurrently(
        [feed, rf.Dequeue(background.outqueue)], mode="async", output_indexes=[1]
    )


@pytest.mark.parametrize("on", ["thread", "process"])
def test_for_each_on(engine, on):
    """The same result as in the driver, in the same order."""
    flow = flow_of([1, 2, 3, 4]).for_each(lambda x: 10 * x, on=on)
    assert everything(flow, engine) == [10, 20, 30, 40]


def test_capacity_does_not_change_the_result():
    """More or less room between: the same items in the same order."""
    for capacity in (1, 2, 7):
        flow = flow_of(list(range(9))).for_each(lambda x: x + 1, on="thread", capacity=capacity)
        assert everything(flow) == list(range(1, 10))


def test_state_is_kept_between_items(engine):
    """A stateful callable lives as long as the run."""
    assert everything(flow_of([1, 2, 3]).for_each(Total(), on="thread"), engine) == [1, 3, 6]


def test_state_is_fresh_in_every_run():
    """A second run has a fresh copy."""
    flow = flow_of([1, 2, 3]).for_each(Total(), on="thread")
    assert everything(flow) == everything(flow) == [1, 3, 6]


def test_works_while_the_driver_does():
    """One second in the driver and one on the thread: n items take about n seconds, not 2n."""
    source = rf.from_actors(rf.Actors.of(Count, 1, name="worker")).gather_async()
    flow = source.for_each(lambda x: x, on="thread", name="learn").for_each(
        lambda x: x, name="drive"
    )
    with flow.limit(10).run(Sim(latency={"learn-0": 1.0, "drive": 1.0})) as run:
        assert list(run) == list(range(10))
        assert run.engine.now() == pytest.approx(11.0)


def test_in_flight_is_bounded():
    """Handed over, waiting and finished items never exceed what the queues hold."""
    flow = learner(lambda x: x, rf.from_actors(rf.Actors.of(Count, 1)).gather_async(num_async=8))
    with flow.run(Sim(latency={"learner-0": 1.0})) as run:
        for n in range(10):
            assert next(run) == n
            stats = run.stats()
            assert stats.operator("enqueue(in)").depth <= 2
            assert stats.operator("dequeue(out)").depth <= 2
            assert stats.operator("background(learner)").in_flight <= 2


def test_error_is_the_original(engine):
    """A learner that fails raises its own exception, with its own line."""
    with learner(Broken(), flow_of([1, 2, 3, 4])).run(engine) as run:
        assert [next(run), next(run)] == [1, 2]
        with pytest.raises(LookupError, match="lost my way at call 3") as caught:
            next(run)
    assert "raise LookupError" in str(caught.value)
    assert "background(learner)" in str(caught.value)


def test_error_dropped():
    """Under `drop` the item is lost, counted, and the learner goes on."""

    def picky(x):
        if x == 2:
            raise ValueError(x)
        return x

    with learner(picky, flow_of([1, 2, 3]), on_failure="drop").run("sim") as run:
        assert list(run) == [1, 3]
        assert run.ledger().balanced
        assert run.workers()["learner-0"]["errors"] == 1


def test_lost_and_restarted():
    """A learner whose process dies is restarted; what it was working on is counted as lost."""
    flow = learner(lambda x: x, rf.from_range(6, 1).gather_async(), on_failure="restart",
                   placement="process")  # fmt: skip
    with flow.run(Sim(faults=[Kill(actor="learner-0", request=2)])) as run:
        out = list(run)
        (line,) = run.ledger().balances()
    assert out == [0, 2, 3, 4, 5]
    assert line.dropped == {"worker_lost": 1}
    assert line.balanced


def test_provenance_survives():
    """The result of a background operator comes from the sources of its item."""
    flow = rf.from_items("ab").gather_async().for_each(str.upper, on="thread")
    pairs = everything(flow.zip_with_source_actor())
    assert sorted((actor.index, item) for actor, item in pairs) == [(0, "A"), (1, "B")]


def test_context_knows_provenance():
    """A background operator may ask who made its item."""

    def who(item, ctx):
        return [source.actor for source in ctx.provenance]

    flow = rf.from_items("a", 1).gather_async().for_each(who, on="thread")
    assert everything(flow) == [["items-0"]]


def test_results_that_nobody_takes_are_refused():
    """The out-queue must be read, or the learner stops."""
    background = rf.Background(lambda x: x, name="learner")
    flow = flow_of([1]).for_each(rf.Enqueue(background.inqueue))
    with pytest.raises(rf.CheckError, match="results of a background operator must be taken"):
        flow.take(1, engine="sim")


def test_background_without_input_is_refused():
    """Somebody must fill the in-queue."""
    background = rf.Background(lambda x: x, name="learner")
    with pytest.raises(rf.CheckError, match=r"nothing fills 'learner\.in'"):
        rf.Dequeue(background.outqueue).take(1, engine="sim")
