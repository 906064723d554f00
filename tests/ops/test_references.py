"""Items move as references until somebody reads them; nobody is handed one without asking."""

import numpy as np
import pytest

import rillflow as rf
from rillflow.types import Ref
from tests.ops.parts import everything


class Arrays:
    def __init__(self, size):
        self.size = size

    def next(self):
        return np.arange(self.size)


class Keeper:
    """Remembers the kinds of what it was told."""

    def __init__(self):
        self.kinds = []

    def add(self, *values):
        self.kinds.append([_kind(value) for value in values])

    def next(self):
        if not self.kinds:
            raise rf.NotReady
        return self.kinds[0]


def _kind(value):
    if isinstance(value, list):
        return [_kind(part) for part in value]
    return type(value).__name__


class Send(rf.Operator):
    takes_ref = True

    def __init__(self, keeper, how):
        self.keeper = keeper
        self.how = how

    def __call__(self, item, ctx):
        self.how(self, item, ctx)


def kinds_told(engine, how, gather="gather_async", size=10):
    keeper = rf.Actors.of(Keeper, 1, name="keeper")
    source = getattr(rf.from_actors(rf.Actors.of(Arrays, 2, size, name="arrays")), gather)()
    flow = rf.Concurrently(
        [source.for_each(Send(keeper, how)), rf.from_actors(keeper).gather_async()],
        mode="async", output_indexes=[1],
    )  # fmt: skip
    return flow.take(1, engine=engine)[0]


@pytest.mark.parametrize("size", [10, 100_000])
def test_forwarded_alone(engine, size):
    """A forwarded item arrives as its value."""
    told = kinds_told(engine, lambda op, item, ctx: ctx.send(op.keeper, "add", item), size=size)
    assert told == ["ndarray"]


@pytest.mark.parametrize("size", [10, 100_000])
def test_forwarded_with_other_arguments(engine, size):
    """An item forwarded next to other arguments arrives as its value too."""
    told = kinds_told(engine, lambda op, item, ctx: ctx.send(op.keeper, "add", item, 7), size=size)
    assert told == ["ndarray", "int"]


def test_forwarded_round(engine):
    """A whole round forwarded unread arrives as a list of values."""
    told = kinds_told(
        engine, lambda op, item, ctx: ctx.send(op.keeper, "add", item), "gather_sync", 100_000
    )
    assert told == [["ndarray", "ndarray"]]


def test_put_of_a_reference(engine):
    """What is put may be, or contain, an unread item."""
    told = kinds_told(
        engine, lambda op, item, ctx: ctx.send(op.keeper, "add", ctx.put(item)), size=100_000
    )
    assert told == ["ndarray"]


def test_operator_that_takes_references_may_say_so():
    """An annotation `Ref` agrees with any item, if the operator takes references."""

    class Pass(rf.Operator[Ref, Ref]):
        takes_ref = True

        def __call__(self, item: Ref) -> Ref:
            return item

    class Typed:
        def next(self) -> int:
            return 1

    flow = rf.from_actors(rf.Actors.of(Typed, 1)).gather_async().for_each(Pass())
    assert flow.take(2, engine="sim") == [1, 1]


def test_operators_that_do_not_ask_get_values(engine):
    """Behind batch, rounds, split and shuffle a plain callable is given values."""
    rounds = rf.from_range(4).gather_sync()
    assert everything(rounds.batch(2).for_each(repr), engine) == ["[[0, 2], [1, 3]]"]
    one, two = rf.from_range(4).gather_sync().shuffle(1).split()
    flow = rf.Union(one.for_each(repr), two.batch(2).for_each(repr))
    assert sorted(everything(flow)) == ["[0, 2]", "[1, 3]", "[[0, 2], [1, 3]]"]


@pytest.mark.parametrize("on", ["thread", "process"])
def test_background_operators_get_values(engine, on):
    """A round handed to a background operator is a list of values."""
    flow = rf.from_range(4).gather_sync().for_each(sum, on=on)
    assert everything(flow, engine) == [2, 4]
