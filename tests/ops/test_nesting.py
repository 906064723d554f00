"""Flows are values: they can be pickled, sent to an actor, and run there."""

import pickle

import cloudpickle

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import Count, double, everything


class Runs:
    """An actor that runs a flow of its own and gives its items."""

    def __init__(self, flow, engine="sim"):
        self.run = flow.run(engine)

    def next(self):
        for item in self.run:
            return item
        raise rf.EndOfStream


def test_flow_is_picklable():
    """A chain of operators survives pickling and gives the same items."""
    flow = (
        rf.from_items([1, 2, 3, 4]).gather_sync().flatten().for_each(double).filter(bool).batch(2)
    )
    copy = pickle.loads(pickle.dumps(flow.flatten()))
    assert everything(copy) == [2, 4, 6, 8]


def test_flow_with_closures_travels():
    """A chain with lambdas is consumed in another process."""
    chain = rf.from_items([0, 1, 2, 3, 4]).for_each(lambda x: x).gather_sync().flatten()
    chain = chain.for_each(lambda x: x).filter(lambda x: x > 0).batch(2).flatten()
    copy = cloudpickle.loads(cloudpickle.dumps(chain))
    assert everything(copy) == [1, 2, 3, 4]


def test_actor_runs_a_flow(engine):
    """A flow given to an actor is run there, on `sim`, and its items flow on."""
    inner = rf.from_range(4).gather_sync().flatten()
    outer = rf.from_actors(rf.Actors.of(Runs, 2, inner, name="inner"))
    assert outer.take(99, engine=engine) == [0, 0, 2, 2, 1, 1, 3, 3]


def test_shard_read_in_an_actor():
    """Shard i read in actor i gives shard i."""
    shards = [(shard,) for shard in rf.from_range(4).shards()]
    outer = rf.from_actors(rf.Actors.of(Runs, 2, each=shards)).gather_sync()
    assert everything(outer) == [[0, 2], [1, 3]]


def test_twice_nested():
    """An actor of an inner flow may run a flow as well."""
    leaf = rf.from_range(2, 1).gather_sync().flatten()
    middle = rf.from_actors(rf.Actors.of(Runs, 1, leaf)).gather_sync().flatten().for_each(double)
    outer = rf.from_actors(rf.Actors.of(Runs, 1, middle)).gather_sync().flatten()
    assert everything(outer) == [0, 2]


def test_flow_in_the_body_of_another():
    """The body of a loop over one flow may run another."""
    out = []
    with rf.from_actors(rf.Actors.of(Count, 1)).gather_sync().flatten().run("sim") as run:
        for n, _ in zip(run, range(3), strict=False):
            out += flow_of([n]).for_each(double).take(1, engine="sim")
    assert out == [0, 2, 4]
