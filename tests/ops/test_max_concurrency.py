"""for_each(max_concurrency=k): the calls of a shard spread over k helpers."""

import pytest

import rillflow as rf
from rillflow.engines.sim import Sim
from rillflow.testing import Kill
from tests.ops.parts import Count, everything


def plus_ten(x):
    return x + 10


def test_every_item_once(engine):
    """Eight items, two shards, two helpers each: the set is complete."""
    flow = rf.from_range(8).for_each(plus_ten, max_concurrency=2).gather_async()
    assert sorted(everything(flow, engine)) == list(range(10, 18))


def test_every_item_once_in_rounds():
    """The same through gather_sync."""
    flow = rf.from_range(8).for_each(plus_ten, max_concurrency=2).gather_sync().flatten()
    assert sorted(everything(flow)) == list(range(10, 18))


@pytest.mark.parametrize(("k", "seconds"), [(2, 2.0), (4, 1.0)])
def test_k_calls_at_a_time(k, seconds):
    """Four calls of one second on each of two shards take 4/k seconds: k at a time, no more."""
    flow = rf.from_range(8).for_each(plus_ten, max_concurrency=k).gather_async()
    latency = {f"for_each-{i}": 1.0 for i in range(2 * k)}
    with flow.run(Sim(latency=latency)) as run:
        assert sorted(run) == list(range(10, 18))
        assert run.engine.now() == pytest.approx(seconds)


def test_exactly_k_start():
    """Before the first call returns exactly k per shard have begun."""
    flow = rf.from_range(8).for_each(plus_ten, max_concurrency=2).gather_async()
    latency = {f"for_each-{i}": 1.0 for i in range(4)}
    with flow.run(Sim(latency=latency), trace=True) as run:
        next(run)
        begun = [e for e in run.trace if e[1] == "request" and e[2].startswith("for_each")]
        done = [e for e in run.trace if e[1] == "completed" and e[2].startswith("for_each")]
        assert len([e for e in begun if e[0] == 0.0]) == 4
        assert len(begun) - len(done) <= 4


def test_name_is_kept():
    """The operator keeps the name its user gave it."""
    flow = rf.from_range(8).for_each(plus_ten, max_concurrency=2, name="slow").gather_async()
    assert "slow" in flow.explain()


def test_lost_helper_takes_one_item_with_it():
    """Under `shrink` only the item a dead helper worked on is lost, and it is counted."""
    engine = Sim(faults=[Kill(actor="for_each-0", request=1)])
    flow = rf.from_range(8).for_each(plus_ten, max_concurrency=2).gather_async()
    with flow.run(engine, on_failure="shrink") as run:
        assert len(list(run)) == 7
        (line,) = [line for line in run.ledger().balances() if line.produced]
    assert (line.produced, line.held, line.dropped) == (8, 0, {"worker_lost": 1})


@pytest.mark.parametrize("operator", ["max_concurrency", "repartition"])
def test_workers_may_join(operator):
    """The items of a worker that joins go through the helpers like the others', none is lost."""
    source = rf.from_actors(rf.Actors.of(Count, 1, name="worker"), "named")
    if operator == "repartition":
        flow = source.repartition(2).gather_async()
    else:
        flow = source.for_each(tuple, max_concurrency=2).gather_async()
    numbers = {"worker-0": [], "worker-1": []}
    with flow.run(Sim(latency=lambda rng: rng.random())) as run:
        next(run)
        assert run.add_workers() == ["worker-1"]
        for _ in range(40):
            name, number = next(run)
            numbers[name].append(number)
    assert all(len(given) > 10 for given in numbers.values())
    for given in numbers.values():
        expected = range(min(given), min(given) + len(given))
        missing = set(expected) - set(given)
        assert len(set(given)) == len(given)
        assert len(missing) <= 4  # on their way when the run was stopped


def test_error_names_the_operator():
    """An error in a helper names the operator and the user's line."""

    def broken(x):
        raise ValueError(f"no {x}")

    flow = rf.from_range(8).for_each(broken, max_concurrency=2).gather_async()
    with pytest.raises(ValueError, match="no ") as caught:
        everything(flow)
    assert "for_each(broken, max_concurrency=2)" in str(caught.value)
    assert "raise ValueError" in str(caught.value)


@pytest.mark.parametrize("bad", [0, -1, True])
def test_count_is_checked(bad):
    """At least one call at a time."""
    with pytest.raises(rf.BuildError, match="max_concurrency"):
        rf.from_range(4).for_each(plus_ten, max_concurrency=bad)
