"""The same boundary on Ray: a few of the cases that the other engines have all of."""

from __future__ import annotations

from itertools import islice

import pytest

import rillflow as rf
from tests.edges.parts import (
    Arrays,
    Numbered,
    Reuses,
    Sink,
    Slowly,
    Trouble,
    Troubled,
    lost,
    messages,
    writable,
)

pytestmark = [
    pytest.mark.ray,
    pytest.mark.proc,
    pytest.mark.usefixtures("users_ray"),
    pytest.mark.timeout(60),
]

placements = pytest.mark.parametrize("placement", ["process", "thread"])


@placements
@pytest.mark.parametrize("trouble", ["SystemExit", "CancelledError", "Unspeakable", "Foreign"])
def test_what_a_source_raises_is_an_error_of_its_operator(placement, trouble):
    """It is raised, or dropped, as the policy says; the actor lives on."""
    raises = rf.Actors.of(Troubled, 1, trouble, placement=placement, name="raises")
    drops = rf.Actors.of(Troubled, 1, trouble, placement=placement, name="drops", on_failure="drop")
    flows = [rf.from_actors(group).gather_async() for group in (raises, drops)]
    with rf.Union(*flows, weights=[1, 1]).run("ray") as run:
        with pytest.raises(rf.OperatorError) as caught:
            list(islice(run, 6))
        assert not isinstance(caught.value, rf.WorkerLost | SystemExit)
        assert trouble in str(caught.value)
        assert "Troubled.next" in caught.value.operator
        assert caught.value.actor == "raises-0"
        assert set(islice(run, 6)) <= {0, 2, 3, 4, 5, 6}
        assert {worker["incarnation"] for worker in run.workers().values()} == {0}
        assert [line.dropped for line in run.ledger().balances()] == [{"error": 1}] * 2


def test_mistakes_and_a_constructor_that_raises_destroy_nobody_else():
    """A mistyped call, a mistyped message, a constructor: three errors, and the sink lives on."""
    sinks = rf.Actors.of(Sink, 1, name="sink", on_failure="restart")
    broken = rf.Actors.of(Troubled, 1, "SystemExit", -1, name="broken")
    flow = rf.Union(
        rf.from_actors(broken).gather_async(),
        rf.from_actors(sinks, "count").gather_async(),
        weights=[1, 1],
    )
    with flow.run("ray") as run:
        with pytest.raises(rf.ActorStartError, match="SystemExit"):
            next(run)
        run.send(sinks, "add", 7)
        with pytest.raises(AttributeError, match="nmubers"):
            run.call("sink-0", "nmubers")
        run.send(sinks, "dad", 8)
        with pytest.raises(AttributeError, match="dad"):
            list(islice(run, 500))
        assert run.call("sink-0", "numbers") == [7]
        assert run.workers()["sink-0"]["incarnation"] == 0
        assert lost(messages(run)) == {"error": 1}


@placements
def test_values_are_read_only_and_keep_what_they_were(placement):
    """A reused buffer gives different items, and arrays of all kinds cannot be written to."""
    reuses = rf.Actors.of(Reuses, 1, placement=placement)
    flow = rf.from_actors(reuses).gather_async(num_async=2).batch(3)
    (batch,) = flow.take(1, engine="ray")
    assert [array.tolist() for array in batch] == [[1, 1], [2, 2], [3, 3]]
    given = rf.Actors.of(Arrays, 1, placement=placement)
    ((item, _),) = rf.from_actors(given).gather_async().take(1, engine="ray")
    assert writable(item) == []


def test_a_request_that_fails_half_way_leaves_nothing_behind():
    """Behind a batch in an actor an error is that of every item in the batch."""

    def refuse(batch: list[int]) -> list[int]:
        if batch == [2, 3]:
            raise SystemExit(3)
        return batch

    flow = rf.from_range(7, 1).batch(2).for_each(refuse).gather_async()
    with flow.run("ray", on_failure="drop") as run:
        assert list(run) == [[0, 1], [4, 5], [6]]
        (line,) = run.ledger().balances()
    assert (line.held, line.dropped) == (0, {"error": 2})


def test_the_deadline_does_not_run_during_the_constructor():
    """A constructor may take longer than a request may."""
    policy = rf.FailurePolicy(on_lost="restart", timeout=2.0, max_restarts=1)
    actors = rf.Actors.of(Slowly, 1, 5.0, on_failure=policy)
    with rf.from_actors(actors).gather_async().run("ray") as run:
        assert next(run) == (0, 1)


def test_a_background_operator_that_raises_goes_on():
    """A learner in a process raises what would end it; the other items arrive."""
    background = rf.Background(Trouble("SystemExit"), name="learner", placement="process",
                               on_failure="drop")  # fmt: skip
    numbers = rf.from_actors(rf.Actors.of(Numbered, 1, 4)).gather_async()
    feed = numbers.for_each(lambda item: item[1]).for_each(rf.Enqueue(background.inqueue))
    read = rf.Dequeue(background.outqueue)
    flow = rf.Concurrently([feed, read], mode="async", output_indexes=[1])
    with flow.run("ray") as run:
        assert list(run) == [0, 2, 3]
        assert run.ledger().balanced
