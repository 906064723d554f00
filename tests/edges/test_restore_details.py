"""What a state must hold, case by case: queues, pieces, weights, operators of every kind."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from rillflow.testing.actors import Total, Worker
from tests.edges.parts import Numbered, Publish, Tally, Weighted, numbers_of_each

pytestmark = pytest.mark.timeout(30)


def source(count: int = 2, method: str = "next") -> rf.ParallelFlow[Any]:
    return rf.from_actors(rf.Actors.of(Numbered, count, name="worker"), method)


def check_every_cut(build: Any, cuts: int, after: int = 20, latency: Any = None) -> None:
    """From each cut the rebuilt and restored run gives the same items and the same ledger."""
    for cut in range(cuts):
        with build().run(rf.Sim(latency=latency), seed=5) as run:
            list(islice(run, cut))
            state = copy.deepcopy(run.get_state())
            rest, ledger = list(islice(run, after)), str(run.ledger())
        with build().run(rf.Sim(latency=latency), seed=5) as resumed:
            resumed.set_state(state)
            assert list(islice(resumed, after)) == rest, f"after a cut at {cut}"
            assert str(resumed.ledger()) == ledger, f"after a cut at {cut}"
            assert resumed.ledger().balanced


def random_latency(rng: Any) -> float:
    return float(rng.random())


latencies = pytest.mark.parametrize("latency", [None, random_latency], ids=["immediate", "random"])


# -- operators -------------------------------------------------------------------------------------


@latencies
def test_two_queues_with_the_default_name_are_two(latency):
    """A queue is known by where it is used; its name is for people."""

    def build() -> rf.Flow[Any]:
        one, two = rf.Queue(capacity=5), rf.Queue(capacity=5)
        feeds = [
            source().gather_async(num_async=2).for_each(rf.Enqueue(one)),
            rf.from_range(1000, 1).gather_async().for_each(rf.Enqueue(two)),
        ]
        reads = [rf.Dequeue(one).batch(2), rf.Dequeue(two).for_each(lambda n: -n)]
        return rf.Concurrently([*feeds, *reads], weights=[3, 3, 1, 1], output_indexes=[2, 3])

    check_every_cut(build, 12, latency=latency)


@latencies
@pytest.mark.parametrize("num_async", [1, 2, 3])
def test_pieces_made_inside_an_actor_resume_at_every_cut(num_async, latency):
    """Of an answer with several pieces some may be delivered: the rest keeps the request open."""

    def build() -> rf.Flow[Any]:
        return source(2, "several").flatten().gather_async(num_async=num_async)

    check_every_cut(build, 19, latency=latency)


@latencies
def test_pieces_of_several_answers_resume_behind_a_driver_operator(latency):
    """The same with a buffer behind it, and messages that change what is made."""

    def build() -> rf.Flow[Any]:
        workers = rf.Actors.of(Telling, 2, name="worker")
        flow = rf.from_actors(workers, "several").flatten().gather_async(num_async=2)
        return flow.for_each(Publish()).batch(2)

    check_every_cut(build, 12, latency=latency)


class Telling(Numbered):
    """Its pieces carry the weights it was told."""

    weights = 0

    def set_weights(self, weights: int) -> None:
        self.weights = weights

    def several(self) -> list[Any]:
        return [(*piece, self.weights) for piece in super().several()]

    def get_state(self) -> Any:
        return [self.n, self.weights]

    def set_state(self, state: Any) -> None:
        self.n, self.weights = state


class Punch:
    """An operator whose state has names that a file format, or we ourselves, may use as well."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.count = 0

    def __call__(self, item: Any) -> Any:
        self.count += 1
        return self.count, item

    def get_state(self) -> Any:
        return {self.key: self.count}

    def set_state(self, state: Any) -> None:
        self.count = state[self.key]


@pytest.mark.parametrize("key", ["ticket", "value", "tickets", "state", "format", "$"])
@pytest.mark.parametrize("where", ["driver", "actor", "background"])
def test_the_state_of_an_operator_may_have_any_key(key, where):
    """What an operator calls its state is its own affair."""

    def build() -> rf.Flow[Any]:
        if where == "actor":
            return source(1).for_each(Punch(key)).gather_async()
        flow = source(1).gather_async()
        return flow.for_each(Punch(key), on="thread" if where == "background" else "driver")

    check_every_cut(build, 4, after=5)


METHODS = {
    "for_each": lambda flow: flow.for_each(Tally().number),
    "filter": lambda flow: flow.filter(Tally().odd),
    "combine": lambda flow: flow.combine(Tally().pairs),
}


@pytest.mark.parametrize("where", ["driver", "actor"])
@pytest.mark.parametrize("operator", METHODS)
def test_the_object_of_a_bound_method_is_saved(operator, where):
    """A method as an operator has the state of its object."""

    def build() -> rf.Flow[Any]:
        if where == "actor":
            return METHODS[operator](source(1)).gather_async()
        return METHODS[operator](source(1).gather_async())

    check_every_cut(build, 7, after=6)


@pytest.mark.parametrize("where", ["background", "spread"])
def test_the_object_of_a_bound_method_on_an_actor_of_its_own_is_saved(where):
    """The same on a thread, and on helpers that share the work."""

    def build() -> rf.Flow[Any]:
        if where == "background":
            return source(1).gather_async().for_each(Tally().number, on="thread")
        return source(1).for_each(Tally().number, max_concurrency=2).gather_async()

    check_every_cut(build, 7, after=6)


@latencies
def test_items_on_their_way_to_helpers_resume_at_every_cut(latency):
    """Items that wait between two groups of actors are items, read or not."""

    def build() -> rf.Flow[Any]:
        return source(2).for_each(lambda item: item, max_concurrency=2).gather_async()

    check_every_cut(build, 9, latency=latency)
    check_every_cut(lambda: source(3).repartition(2).gather_async(num_async=2), 9, latency=latency)


# -- weights ---------------------------------------------------------------------------------------


def weights_and_versions() -> rf.Flow[Any]:
    workers = rf.Actors.of(Weighted, 2, name="worker")
    flow = rf.from_actors(workers).gather_async(num_async=2)

    def stamp(item: Any, ctx: rf.Context) -> Any:
        (source,) = ctx.provenance
        return item[0], item[1], source.version

    return flow.for_each(stamp).for_each(Publish(workers))


def test_an_actor_without_a_state_acts_with_the_weights_that_its_items_claim(engine):
    """After a restore the newest weights are there before the first request."""
    with weights_and_versions().run(engine) as run:
        list(islice(run, 10))
        state = copy.deepcopy(run.get_state())
    with weights_and_versions().run(engine) as resumed:
        resumed.set_state(state)
        items = list(islice(resumed, 20))
    assert [weights for _, weights, _ in items] == [version for _, _, version in items]
    assert items[-1][1] > 10


@latencies
def test_actors_without_a_state_resume_at_every_cut(latency):
    """Weights are all they know, and the newest are one fact of the run."""
    check_every_cut(weights_and_versions, 12, latency=latency)


# -- a state that could not be taken ---------------------------------------------------------------


class Shy(Worker):
    """The first of the group cannot be saved the first time it is asked."""

    asked = 0

    def get_state(self) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 1 and self.name.endswith("-0"):
            raise LookupError("not now")
        return super().get_state()


class ShyTotal(Total):
    """An operator that cannot be saved the first time it is asked."""

    asked = 0

    def get_state(self) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 1:
            raise LookupError("not now")
        return super().get_state()


@pytest.mark.parametrize("gather", ["gather_async", "gather_sync"])
@pytest.mark.parametrize("who", ["actor", "operator", "background"])
def test_a_run_that_could_not_be_saved_goes_on(engine, who, gather):
    """The error is that of whoever refused; no item is lost; the next state can be taken."""

    def build() -> rf.Flow[Any]:
        workers = rf.Actors.of(Shy if who == "actor" else Worker, 2, name="worker")
        flow = getattr(rf.from_actors(workers, "named"), gather)()
        flow = flow.flatten() if gather == "gather_sync" else flow
        if who == "operator":
            return flow.for_each(Keeps(ShyTotal()))
        return flow.for_each(Keeps(ShyTotal()), on="thread") if who == "background" else flow

    class Keeps:
        def __init__(self, total: Any) -> None:
            self.total = total

        def __call__(self, item: Any) -> Any:
            self.total(item[1])
            return item

        def get_state(self) -> Any:
            return self.total.get_state()

        def set_state(self, state: Any) -> None:
            self.total.set_state(state)

    with build().run(engine) as run:
        items = list(islice(run, 6))
        with pytest.raises(LookupError, match="not now"):
            run.get_state()
        items += list(islice(run, 14))
        assert run.ledger().balanced
        state = copy.deepcopy(run.get_state())
        items += list(islice(run, 10))
    for name, given in numbers_of_each(items).items():
        assert given == list(range(len(given))), f"items of {name} were lost or made twice"
    with build().run(engine) as resumed:
        resumed.set_state(state)
        assert len(list(islice(resumed, 5))) == 5


# -- Ctrl-C in the driver --------------------------------------------------------------------------


class Interrupted:
    """A callable in which the user presses Ctrl-C at an item, once."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.calls = 0

    def __call__(self, item: Any) -> Any:
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return item


SHAPES = {
    "async": lambda fn: rf.from_range(9, 1).gather_async().for_each(fn),
    "sync": lambda fn: rf.from_range(9, 1).gather_sync().for_each(fn).flatten(),
    "filter": lambda fn: rf.from_range(9, 1).gather_async().filter(lambda n: fn(n) is not None),
    "combine": lambda fn: rf.from_range(9, 1).gather_async().combine(lambda n: [fn(n)]),
    "behind a split": lambda fn: rf.Concurrently(
        [(ports := rf.from_range(9, 1).gather_async().split())[0].for_each(fn), ports[1]],
        output_indexes=[0],
    ),
    "units": lambda fn: rf.Union(
        rf.from_range(9, 1).gather_async(),
        rf.from_range(1, 1).gather_async().filter(lambda _: False),
        weights=[1, 1],
        units=lambda item: fn(item) is not None,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_interrupt_in_an_operator_leaves_nothing_stuck(engine, shape):
    """Who catches Ctrl-C and goes on gets every item but the one that was interrupted."""
    with SHAPES[shape](Interrupted(3)).run(engine) as run:
        items = list(islice(run, 2))
        with pytest.raises(KeyboardInterrupt):
            next(run)
        items += list(run)
        assert run.ledger().balanced
        for line in run.ledger().balances():
            assert (line.held, line.in_flight) == (0, 0), str(line)
    assert items == [0, 1, 3, 4, 5, 6, 7, 8]


def test_an_interrupt_while_a_background_learns_leaves_nothing_stuck(engine):
    """The interrupt hits the operator that feeds a learner; the learner goes on."""
    flow = flow_of(list(range(8))).for_each(Interrupted(3)).for_each(lambda n: n, on="thread")
    with flow.run(engine) as run:
        items, interrupts = [], 0
        while True:
            try:
                items.append(next(run))
            except StopIteration:
                break
            except KeyboardInterrupt:
                interrupts += 1
        assert run.ledger().balanced
    assert (items, interrupts) == ([0, 1, 3, 4, 5, 6, 7], 1)
