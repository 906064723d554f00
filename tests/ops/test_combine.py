"""combine, in the actors and in the driver."""

import pytest

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import everything


class Pairs:
    """Collects two items, then gives them as one."""

    def __init__(self):
        self.waiting = []

    def __call__(self, item):
        self.waiting.append(item)
        if len(self.waiting) < 2:
            return []
        pair, self.waiting = tuple(self.waiting), []
        return [pair]


def test_flat_map(engine):
    """Each item may give several."""
    assert rf.from_range(4).combine(lambda x: [x, x]).take(9, engine=engine) == [
        0, 2, 0, 2, 1, 3, 1, 3
    ]  # fmt: skip


def test_collects_per_shard(engine):
    """Inside actors each shard collects by itself."""
    assert rf.from_range(8).combine(Pairs()).take(9, engine=engine) == [
        (0, 1), (4, 5), (2, 3), (6, 7)
    ]  # fmt: skip


def test_collects_in_the_driver():
    """In the driver items of all shards are collected together."""
    assert everything(flow_of([1, 2, 3, 4]).combine(Pairs())) == [(1, 2), (3, 4)]


def test_what_is_never_emitted_stays_held():
    """An item that the callable keeps for ever is held in the ledger, not lost."""
    with rf.from_range(3, 1).gather_async().combine(Pairs()).run("sim") as run:
        assert list(run) == [(0, 1)]
        (line,) = run.ledger().balances()
        assert (line.produced, line.held, line.done) == (3, 1, {"delivered": 2})
        assert run._scheduler.audit() == {"from_range(3)": 1}


def test_provenance_is_united():
    """A pair comes from both of its items."""

    def sources(item, ctx):
        return [(source.actor, source.seq) for source in ctx.provenance]

    flow = rf.from_items("ab", 2).gather_sync().flatten().combine(Pairs()).for_each(sources)
    ((first, *rest),) = everything(flow)
    assert {first, *rest} == {("items-0", 0), ("items-1", 0)}


def test_result_must_be_a_list():
    """A callable that returns something else is told so."""
    with pytest.raises(TypeError, match="the callable given to combine returns a list; got int"):
        everything(flow_of([1]).combine(lambda x: x))


def test_error_inside_keeps_what_was_collected():
    """After an error the items collected before are still there."""

    class Picky(Pairs):
        def __call__(self, item):
            if item == "bad":
                raise ValueError(item)
            return super().__call__(item)

    with flow_of(["a", "bad", "b"]).combine(Picky()).run("sim") as run:
        with pytest.raises(ValueError, match="bad"):
            next(run)
        assert next(run) == ("a", "b")
