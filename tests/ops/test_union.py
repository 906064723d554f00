"""Union: as ready, or by exact weights."""

from collections import Counter
from fractions import Fraction

import pytest

import rillflow as rf
from rillflow.engines.sim import Sim
from rillflow.testing import flow_of
from tests.ops.parts import Count, everything


def endless(tag):
    """A flow of pairs (tag, n) that is always ready."""
    actors = rf.Actors.of(Count, 1, name=tag, placement="driver")
    return rf.from_actors(actors).gather_sync().flatten().for_each(lambda n: (tag, n))


def test_as_ready_has_every_item(engine):
    """All items of both come, each once."""
    flow = rf.Union(rf.from_range(4).gather_async(), rf.from_items("abcd").gather_async())
    assert sorted(everything(flow, engine), key=str) == [0, 1, 2, 3, "a", "b", "c", "d"]


def test_as_ready_alternates_when_both_are():
    """Least recently served first: with both always ready turns alternate."""
    assert everything(rf.Union(flow_of([1, 2, 3]), flow_of([4, 5, 6]))) == [1, 4, 2, 5, 3, 6]


def test_as_ready_does_not_throttle_the_fast():
    """Fast (50 ms) and slow (300 ms) sources of ten items: the last three results are slow."""
    fast = rf.from_iterators([["fast"] * 10]).gather_async()
    slow = rf.from_iterators([["slow"] * 10]).gather_async()
    engine = Sim(latency={"iterators-0": 0.05, "iterators#2-0": 0.3})
    assert everything(rf.Union(fast, slow), engine)[-3:] == ["slow"] * 3


def test_method_is_the_same():
    """`flow.union(other)` is `Union(flow, other)`."""
    assert everything(flow_of([1, 2]).union(flow_of([3, 4]))) == [1, 3, 2, 4]


def test_goes_on_when_one_ends():
    """A child that has ended is passed over; the union ends with the last."""
    assert everything(rf.Union(flow_of([1]), flow_of([2, 3, 4]))) == [1, 2, 3, 4]
    assert everything(rf.Union(flow_of([1]), flow_of([2, 3]), weights=[5, 1])) == [1, 2, 3]


@pytest.mark.parametrize(
    "weights", [[1, 1], [1, 2], [3, 1], [2, 3], [1, 10], [1, 2.5], [0.3, 0.7], [1, 1 / 3]]
)
def test_weights_are_exact(weights):
    """After any number of items no child is more than one turn off its exact share."""
    flow = rf.Union(endless("a"), endless("b"), weights=weights)
    shares = [Fraction(w).limit_denominator(1000) for w in weights]
    counts = {"a": 0, "b": 0}
    with flow.run("sim") as run:
        for n in range(1, 301):
            counts[next(run)[0]] += 1
            exact = n * shares[0] / sum(shares)
            assert abs(counts["a"] - exact) <= 1


def test_three_weights():
    """1 : 2 : 3 over sixty items is 10, 20 and 30."""
    flow = rf.Union(endless("a"), endless("b"), endless("c"), weights=[1, 2, 3])
    assert Counter(tag for tag, _ in flow.take(60, engine="sim")) == {"a": 10, "b": 20, "c": 30}


def test_weights_are_the_same_every_time():
    """The order of turns is no matter of chance."""
    flow = rf.Union(endless("a"), endless("b"), weights=[1, 1.7])
    assert flow.take(50, engine="sim", seed=1) == flow.take(50, engine="sim", seed=2)


def test_nothing_is_lost_or_repeated():
    """Each child's own items come in order, none missing."""
    flow = rf.Union(endless("a"), endless("b"), weights=[1, 2.5])
    out = flow.take(70, engine="sim")
    assert [n for tag, n in out if tag == "a"] == list(range(20))
    assert [n for tag, n in out if tag == "b"] == list(range(50))


def test_units():
    """With units a turn costs what its item weighs: equal shares of steps, not of items."""
    small = endless("small").for_each(lambda _: 1)
    large = endless("large").for_each(lambda _: 10)
    flow = rf.Union(small, large, weights=[1, 1], units=lambda steps: steps)
    out = flow.take(110, engine="sim")
    assert (out.count(1), out.count(10)) == (100, 10)


def test_units_and_a_filter_that_rejects_everything():
    """A child that uses its turns without giving anything does not starve its sibling."""
    nothing = endless("nothing").filter(lambda _: False)
    flow = rf.Union(nothing, endless("b"), weights=[1, 1], units=lambda _: 1)
    assert flow.take(5, engine="sim") == [("b", n) for n in range(5)]


def test_units_that_raise_are_an_operator_error():
    """An error in `units` names the union, and the item is accounted for."""

    def broken(item):
        raise ZeroDivisionError("no steps")

    flow = rf.Union(flow_of([1]), flow_of([2]), weights=[1, 1], units=broken)
    with flow.run("sim") as run:
        with pytest.raises(ZeroDivisionError, match="no steps") as caught:
            next(run)
        assert isinstance(caught.value, rf.OperatorError)
        assert "union(weights=[1, 1])" in str(caught.value)
        held = sum(line.held for line in run.ledger().balances())
        assert held == sum(run._scheduler.audit().values())


def test_filter_that_rejects_everything_starves_nobody():
    """With weights 1:1 the sibling of such a filter gets every second turn."""
    seen = []

    def reject(item):
        seen.append(item)
        return False

    flow = rf.Union(endless("a").filter(reject), endless("b"), weights=[1, 1])
    assert flow.take(100, engine="sim") == [("b", n) for n in range(100)]
    assert 98 <= len(seen) <= 101


def test_counters_of_all_branches_are_seen_behind_it():
    """Counters of both branches are in one place: the run."""

    def add(name, n):
        def count(item, ctx):
            ctx.count(name, item if n is None else n)
            return item

        return count

    left = flow_of([1, 2, 3, 4]).for_each(add("foo", None), name="left")
    right = flow_of([1, 1, 1, 1]).for_each(add("bar", 100), name="right")
    totals = []
    with rf.Union(left, right, weights=[1, 1]).run("sim") as run:
        for i, _ in enumerate(run):
            stats = run.stats()
            side, name = ("left", "foo") if i % 2 == 0 else ("right", "bar")
            totals.append(stats.operator(side).counters[name])
    assert totals == [1, 100, 3, 200, 6, 300, 10, 400]


def test_uneven_weights_behind_one_split_are_refused():
    """Children of a split take every item each: unequal weights cannot hold."""
    one, two = flow_of([1]).split()
    assert any("every child of a split takes every item" in problem
               for problem in rf.Union(one, two, weights=[1, 2]).check())  # fmt: skip


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: rf.Union(flow_of([1])), "at least 2 flows"),
        (lambda: rf.Union(flow_of([1]), rf.from_range(2)), "Gather it first"),
        (lambda: rf.Union(flow_of([1]), flow_of([2]), weights=[1]), "one weight per flow"),
        (lambda: rf.Union(flow_of([1]), flow_of([2]), weights=[1, 0]), "above 0"),
        (lambda: rf.Union(flow_of([1]), flow_of([2]), weights=[1, float("nan")]), "above 0"),
        (lambda: rf.Union(flow_of([1]), flow_of([2]), units=len), "needs `weights`"),
        (lambda: rf.Union(flow_of([1]), [2]), "merges flows"),
    ],
)
def test_arguments_are_checked(build, match):
    """Wrong arguments are refused when the flow is written."""
    with pytest.raises(rf.BuildError, match=match):
        build()


def test_infinite_weight_is_refused():
    """A weight is a finite number."""
    with pytest.raises(rf.BuildError, match="weights"):
        rf.Union(flow_of([1]), flow_of([2]), weights=[1, float("inf")])
