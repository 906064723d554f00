"""What operators of the driver share in a run, and what they do before its first request."""

import itertools

import rillflow as rf
from rillflow.testing import flow_of
from rillflow.testing.actors import Worker


class Tally:
    def __init__(self):
        self.total = 0

    def get_state(self):
        return {"total": self.total}

    def set_state(self, state):
        self.total = state["total"]


class AddTo(rf.Operator):
    """Adds its item to a tally that other operators see."""

    def on_start(self, ctx):
        ctx.shared("tally", Tally)

    def __call__(self, item, ctx):
        tally = ctx.shared("tally", Tally)
        tally.total += item
        return tally.total


class FirstWeights(rf.Operator):
    """Sends weights before anything is asked for."""

    def __init__(self, workers):
        self.workers = workers

    def on_start(self, ctx):
        ctx.send(self.workers, "tell", f"seed {ctx.seed}", version=7)

    def __call__(self, item):
        return item


def test_operators_share_one_object_per_run():
    """Both operators see the same tally, and the next run starts with a new one."""
    flow = flow_of([1, 2, 3]).for_each(AddTo()).for_each(AddTo())
    for _ in range(2):
        assert flow.take(3, engine="sim") == [2, 8, 22]


def test_what_is_shared_is_part_of_the_state():
    """A resumed run goes on with the tally of the saved one."""

    def build():
        return flow_of([1, 2, 3, 4]).for_each(AddTo())

    with build().run("sim") as run:
        assert list(itertools.islice(run, 2)) == [1, 3]
        state = run.get_state()
    with build().run("sim") as resumed:
        resumed.set_state(state)
        assert list(resumed) == [6, 10]
        assert resumed.shared["tally"].total == 10


def test_on_start_comes_before_the_first_request(engine):
    """What is sent on start is seen by every first item, with its version."""
    workers = rf.Actors.of(Worker, 2, name="worker")
    seen = []

    def look(item, ctx):
        seen.extend(source.version for source in ctx.provenance)
        return item

    flow = rf.from_actors(workers, "report").gather_sync().for_each(FirstWeights(workers))
    with flow.for_each(look).run(engine, seed=5) as run:
        assert [told for _, _, told in next(run)] == [["seed 5"], ["seed 5"]]
    assert seen == [7, 7]
