"""for_each, in the actors and in the driver."""

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import Count, Total, double, everything


def test_in_the_actors(engine):
    """Every item is mapped in the actor that made it."""
    assert rf.from_range(4).for_each(double).take(9, engine=engine) == [0, 4, 2, 6]


def test_chain(engine):
    """Two doublings are a multiplication by four."""
    flow = rf.from_range(4).for_each(double).for_each(lambda x: x * 2)
    assert flow.take(9, engine=engine) == [0, 8, 4, 12]


def test_in_the_driver(engine):
    """In the driver the order of the flow is kept."""
    flow = rf.from_range(4).gather_sync().flatten().for_each(double)
    assert everything(flow, engine) == [0, 4, 2, 6]


def test_par_for_each_is_the_same():
    """The paper's name for the parallel form gives the same flow."""
    assert rf.from_range(4).par_for_each(double).take(9, engine="sim") == [0, 4, 2, 6]


def test_par_for_each_is_refused_in_the_driver():
    """A sequential flow has no actors to run in."""
    with pytest.raises(rf.BuildError, match="sequential flow"):
        flow_of([1]).par_for_each(double)


def test_state_is_per_shard(engine):
    """A stateful callable is copied for each shard."""
    flow = rf.from_items([1, 10, 1, 10, 1, 10]).for_each(Total()).gather_sync()
    assert everything(flow, engine) == [[1, 10], [2, 20], [3, 30]]


def test_state_is_per_run():
    """A second run starts from a fresh copy, in the actors and in the driver."""
    flow = rf.from_items([1, 1], 1).for_each(Total()).gather_sync().flatten().for_each(Total())
    assert everything(flow) == everything(flow) == [1, 3]


def test_users_own_object_is_left_alone():
    """The object given to for_each is not changed by a run."""
    total = Total()
    everything(flow_of([1, 2]).for_each(total))
    assert total.total == 0


def test_bound_method_of_a_list_collects():
    """`for_each(results.append)` fills the user's own list."""
    results = []
    everything(flow_of([1, 2]).for_each(results.append))
    assert results == [1, 2]


def test_none_is_an_item():
    """Nothing is special about None."""
    assert everything(flow_of([None, 1]).for_each(lambda x: x)) == [None, 1]


def test_context_in_the_driver():
    """With a parameter `ctx` the callable sees which request made the item."""

    def where(item, ctx):
        return [(source.actor, source.seq) for source in ctx.provenance]

    flow = rf.from_actors(rf.Actors.of(Count, 2, name="worker")).gather_sync().flatten()
    assert flow.for_each(where).take(4, engine="sim") == [
        # one round is one item of several: its pieces share its provenance
        [("worker-0", 0), ("worker-1", 0)], [("worker-0", 0), ("worker-1", 0)],
        [("worker-0", 1), ("worker-1", 1)], [("worker-0", 1), ("worker-1", 1)],
    ]  # fmt: skip


def test_context_in_the_actor(engine):
    """Inside an actor the context knows the actor, its name and the item's sequence number."""

    def where(item, ctx):
        return item, ctx.info.name, ctx.actor.n, [source.seq for source in ctx.provenance]

    flow = rf.from_actors(rf.Actors.of(Count, 2, name="worker")).for_each(where)
    assert flow.take(3, engine=engine) == [
        (0, "worker-0", 0, [0]), (0, "worker-1", 0, [0]), (1, "worker-0", 1, [1])
    ]  # fmt: skip


def test_counters(engine):
    """Counters of an operator are kept by its name, wherever it runs."""

    def inside(item, ctx):
        ctx.count("inside", item)
        return item

    def outside(item, ctx):
        ctx.count("outside")
        return item

    flow = rf.from_items([1, 2, 3, 4], 2).for_each(inside).gather_sync().flatten()
    with flow.for_each(outside, name="outside").run(engine) as run:
        assert list(run) == [1, 2, 3, 4]
        stats = run.stats()
    assert stats.operator("outside").counters == {"outside": 4}
    assert sum(line.counters.get("inside", 0) for line in stats.operators) == 10


def test_counters_of_two_flows_are_apart():
    """Two runs that count under the same name do not see each other."""

    def count(item, ctx):
        ctx.count("foo", item)
        return item

    flows = [flow_of([1, 2, 3, 4]).for_each(count, name="count") for _ in range(2)]
    runs = [flow.run("sim") for flow in flows]
    totals = []
    for _ in range(4):
        for run in runs:
            next(run)
            totals.append(run.stats().operator("count").counters["foo"])
    assert totals == [1, 1, 3, 3, 6, 6, 10, 10]


def test_message_from_an_actor_is_refused():
    """Messages go through the driver, which keeps their order."""

    def send(item, ctx):
        ctx.send(None, "set", 1)

    with pytest.raises(rf.RillflowError, match="cannot send messages from there"):
        rf.from_range(2).for_each(send).take(1, engine="sim")


def test_type_mismatch_is_found_when_the_flow_is_written():
    """Neighbours whose annotations disagree are refused."""

    def words(x: int) -> str:
        return str(x)

    def halves(x: float) -> float:
        return x / 2

    with pytest.raises(rf.TypeMismatch, match=r"for_each\(words\).* gives str"):
        rf.from_range(2).for_each(words).for_each(halves)


def test_wants_a_callable():
    """Something that cannot be called is refused."""
    with pytest.raises(rf.BuildError, match="for_each takes a callable"):
        flow_of([1]).for_each(3)
