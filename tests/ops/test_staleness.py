"""How old an item may be: `admit` holds requests back, `fresh` looks at what came."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

import rillflow as rf
from rillflow.testing import ScriptedEngine


class Worker:
    """Numbers its items."""

    def __init__(self, info: rf.ActorInfo) -> None:
        self.name, self.n, self.weights = info.name, 0, 0

    def next(self) -> tuple[str, int]:
        self.n += 1
        return self.name, self.n

    def set(self, weights: int) -> None:
        self.weights = weights


class Learn(rf.Operator[Any, Any]):
    """Makes a version of each `batch` items and sends it to all workers; gives the item's lag."""

    def __init__(self, workers: rf.Actors, batch: int = 1) -> None:
        self.workers, self.batch, self.seen, self.version = workers, batch, 0, 0

    def __call__(self, item: Any, ctx: rf.Context) -> tuple[Any, int]:
        lag = ctx.lag
        self.seen += 1
        if self.seen % self.batch == 0:
            self.version += 1
            ctx.send(self.workers, "set", self.version, version=self.version)
        return item, lag


def workers(count: int) -> rf.Actors:
    return rf.Actors.of(Worker, count, name="worker")


# -- admit -----------------------------------------------------------------------------------------


def test_admit_makes_requests_by_its_formula() -> None:
    """A trace by hand: two workers, two requests each, lag 0, batch 2.

    At version 0 the limit is (0 + 0 + 1) * 2 = 2 requests: one of each worker's two. After two
    items the version is 1 and the limit 4: two more.
    """
    group, engine = workers(2), ScriptedEngine()
    flow = rf.from_actors(group).gather_async(num_async=2).admit(max_lag=0, batch=2)
    with flow.for_each(Learn(group, batch=2)).run(engine) as run:
        run.start()
        assert engine.drain("request") == [("request", "worker-0", 0), ("request", "worker-0", 1)]
        engine.complete("worker-0", "a")
        engine.complete("worker-0", "b")
        assert next(run) == ("a", 0)
        assert engine.drain("request") == [], "the version is still 0"
        assert next(run) == ("b", 0)
        engine.complete("worker-0", "c")
        assert next(run) == ("c", 0)
        made = engine.drain("request")
        assert len(made) == 2, "version 1: two more"
        assert run.stats().operator("admit(max_lag=0, batch=2, submission)").counters["held_back"]


def test_in_order_of_submission_the_bound_is_kept() -> None:
    """Whatever items take, none is trained on that is more than `max_lag` versions old."""
    for max_lag in (0, 1, 3):
        group = workers(6)
        flow = rf.from_actors(group).gather_async(num_async=2).admit(max_lag=max_lag, batch=4)
        latency = rf.Sim(latency=lambda rng: rng.lognormvariate(0.0, 1.2))
        with flow.for_each(Learn(group, batch=4)).run(latency, seed=max_lag) as run:
            lags = [lag for _, lag in islice(run, 400)]
        assert max(lags) <= max_lag


def test_in_order_of_completion_the_bound_is_an_average() -> None:
    """An item that takes long is overtaken, and older than `max_lag` when it comes."""
    group = workers(6)
    admitted = rf.from_actors(group).gather_async(num_async=2)
    flow = admitted.admit(max_lag=1, batch=4, order="completion").for_each(Learn(group, batch=4))
    with flow.run(rf.Sim(latency=lambda rng: rng.lognormvariate(0.0, 2.0)), seed=1) as run:
        lags = [lag for _, lag in islice(run, 600)]
    assert max(lags) > 1
    assert sum(lags) / len(lags) <= 2


def test_a_request_that_brings_nothing_is_given_back() -> None:
    """A worker that dies takes no admission with it, and nobody waits for its turn."""
    from rillflow.engines.sim_faults import Kill

    group = workers(3)
    flow = rf.from_actors(group).gather_async().admit(max_lag=0, batch=3)
    engine = rf.Sim(latency=1.0, faults=[Kill(actor="worker-1", request=2)])
    with flow.for_each(Learn(group, batch=3)).run(engine, on_failure="shrink") as run:
        lags = [lag for _, lag in islice(run, 30)]
    assert max(lags) == 0
    assert run.ledger().balanced


def test_admission_without_versions_is_a_deadlock_that_says_so() -> None:
    group = workers(1)
    flow = rf.from_actors(group).gather_async().admit(max_lag=0, batch=2)
    with flow.run("sim") as run:
        assert len(list(islice(run, 2))) == 2
        with pytest.raises(rf.DeadlockError, match="2 of 2 requests made at version 0"):
            next(run)


# -- fresh -----------------------------------------------------------------------------------------


def scripted(on_stale: Any) -> tuple[ScriptedEngine, rf.Flow[Any]]:
    """Two workers, each asked once at version 0; each item makes a version."""
    group, engine = workers(2), ScriptedEngine()
    flow = rf.from_actors(group).gather_async().fresh(max_lag=0, on_stale=on_stale)
    return engine, flow.for_each(Learn(group))


def test_what_is_stale_is_dropped_and_counted() -> None:
    """A trace by hand: both are asked at version 0; after the first item the second is 1 old."""
    engine, flow = scripted("drop")
    with flow.run(engine) as run:
        engine.complete("worker-0", ["a"])
        engine.complete("worker-1", ["b", "b", "b"])
        engine.complete("worker-1", ["c"])  # asked anew, at version 1
        assert next(run) == (["a"], 0)
        assert next(run) == (["c"], 0)
        (line,) = run.ledger().balances()
        assert line.dropped == {"stale": 1}
        counters = run.stats().operator("fresh(max_lag=0, drop)").counters
        assert (counters["fresh"], counters["stale"]) == (2, 1)
        assert run.ledger().balanced


def test_the_length_of_what_was_dropped_is_reported() -> None:
    group, engine = workers(2), ScriptedEngine()
    fresh = rf.from_actors(group).gather_async().fresh(max_lag=0, size=len)
    with fresh.for_each(Learn(group)).run(engine) as run:
        engine.complete("worker-0", ["a"])
        engine.complete("worker-1", ["b", "b", "b"])
        engine.complete("worker-1", ["c"])
        assert [next(run), next(run)] == [(["a"], 0), (["c"], 0)]
        counters = run.stats().operator("fresh(max_lag=0, drop)").counters
        assert (counters["fresh_length"], counters["stale_length"]) == (2, 3)


def test_what_is_stale_is_marked_and_passed_on() -> None:
    engine, flow = scripted("mark")
    with flow.run(engine) as run:
        engine.complete("worker-0", "a")
        engine.complete("worker-1", "b")
        assert [next(run), next(run)] == [("a", 0), ("b", 1)]
        (line,) = run.ledger().balances()
        assert line.marked == {"stale": 1}
        assert "1 marked stale" in str(run.ledger())


def test_newer_items_wait_for_an_older_one_that_is_still_out() -> None:
    """A trace by hand: with lag 1, worker-0's second item waits for worker-1's first."""
    group, engine = workers(2), ScriptedEngine()
    flow = rf.from_actors(group).gather_async().fresh(max_lag=1, on_stale="wait")
    with flow.for_each(Learn(group)).run(engine) as run:
        engine.complete("worker-0", "a1")
        engine.complete("worker-0", "a2")
        engine.complete("worker-1", "b1")
        assert next(run) == ("a1", 0)  # version 1; b1 was asked for at version 0
        assert next(run) == ("b1", 1), "a2 would make version 2, and b1 too old"
        assert next(run) == ("a2", 1)
        assert run.ledger().balanced


@pytest.mark.parametrize("on_stale", ["drop", "wait", "mark"])
def test_staleness_is_kept_in_a_state(on_stale: Any) -> None:
    """A run that is saved and restored anywhere gives the same items."""

    def build() -> rf.Flow[Any]:
        group = workers(3)
        flow = rf.from_actors(group).gather_async(num_async=2).admit(max_lag=1, batch=2)
        return flow.fresh(max_lag=0, on_stale=on_stale).for_each(Learn(group, batch=2))

    for cut in (0, 1, 4, 7):
        with build().run(rf.Sim(latency=lambda rng: rng.random()), seed=cut) as run:
            list(islice(run, cut))
            state = run.get_state()
            rest = list(islice(run, 12))
        with build().run(rf.Sim(latency=lambda rng: rng.random()), seed=cut) as resumed:
            resumed.set_state(state)
            assert [lag for _, lag in islice(resumed, 12)] == [lag for _, lag in rest]


# -- refused, and seen -----------------------------------------------------------------------------


def test_wrong_arguments_are_refused() -> None:
    flow = rf.from_actors(workers(1)).gather_async()
    for wrong in (
        lambda: flow.admit(max_lag=-1, batch=1),
        lambda: flow.admit(max_lag=0, batch=0),
        lambda: flow.admit(max_lag=0, batch=1, order="random"),  # type: ignore[arg-type]
        lambda: flow.fresh(max_lag=True),
        lambda: flow.fresh(max_lag=0, on_stale="forget"),  # type: ignore[arg-type]
    ):
        with pytest.raises(rf.BuildError):
            wrong()


def test_a_gate_must_stand_behind_a_gather() -> None:
    one, two = (rf.from_actors(workers(1)).gather_async() for _ in range(2))
    (problem,) = rf.Union(one, two).admit(max_lag=0, batch=1).check()
    assert "must stand behind one" in problem
    flow = rf.from_actors(workers(1)).gather_async()
    twice = flow.admit(max_lag=0, batch=1).admit(max_lag=1, batch=1).check()
    assert len(twice) == 2
    assert "not the only" in twice[0]


def test_both_are_in_the_picture() -> None:
    flow = rf.from_actors(workers(2)).gather_async().admit(max_lag=1, batch=8)
    flow = flow.fresh(max_lag=1, on_stale="mark")
    for shown in (flow.explain(), flow.to_mermaid(), flow.to_svg()):
        assert "admit(max_lag=1" in shown
        assert "fresh(max_lag=1" in shown
