"""repartition: items dealt to new shards."""

import pytest

import rillflow as rf
from rillflow.engines.sim import Sim
from rillflow.testing import Kill
from tests.ops.parts import everything


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_every_item_once(n):
    """However many new shards, all items come, each once."""
    flow = rf.from_range(12, 3).repartition(n)
    assert flow.num_shards() == n
    assert sorted(everything(flow.gather_async())) == list(range(12))
    assert sorted(everything(flow.gather_sync().flatten())) == list(range(12))


def test_on_processes(engine):
    """New shards are actors of their own on every engine."""
    flow = rf.from_range(8).repartition(3).gather_sync().flatten()
    assert sorted(everything(flow, engine)) == list(range(8))


def test_item_k_goes_to_shard_k_mod_n():
    """Of each old shard, item k goes to new shard k mod n."""
    flow = rf.from_range(8).repartition(2)
    rounds = everything(flow.gather_sync())
    first = {items[0] for items in rounds}
    second = {items[1] for items in rounds}
    assert first == {0, 2, 4, 6}
    assert second == {1, 3, 5, 7}


def test_operators_on_both_sides():
    """Operators before run in the old shards, those behind it in the new."""

    def where(item, ctx):
        return item, ctx.info.name

    flow = rf.from_range(4).for_each(lambda x: x + 1).repartition(2).for_each(where).gather_sync()
    out = [item for part in everything(flow) for item in part]
    assert sorted(out) == [
        (1, "repartition-0"), (2, "repartition-1"), (3, "repartition-0"), (4, "repartition-1")
    ]  # fmt: skip


def test_provenance_names_the_source():
    """What passed through a second group still names who made it."""
    flow = rf.from_items("ab").repartition(3).gather_async().zip_with_source_actor()
    assert sorted((actor.index, item) for actor, item in everything(flow)) == [(0, "a"), (1, "b")]


def test_twice():
    """A flow can be dealt anew more than once."""
    flow = rf.from_range(10, 2).repartition(3).repartition(2).gather_async()
    assert sorted(everything(flow)) == list(range(10))


def test_ledger_balances():
    """Items on their way to a second group are in the ledger once."""
    with rf.from_range(10, 2).repartition(3).gather_async().run("sim") as run:
        for _ in run:
            assert run.ledger().balanced
            held = {line.source: line.held for line in run.ledger().balances() if line.held}
            assert run._scheduler.audit() == held
        (line,) = [line for line in run.ledger().balances() if line.produced]
    assert (line.produced, line.done) == (10, {"delivered": 10})


def test_lost_helper_takes_one_item_with_it():
    """Under `shrink` only the item a dead helper worked on is lost, and it is counted."""
    engine = Sim(faults=[Kill(actor="repartition-0", request=1)])
    with rf.from_range(8).repartition(3).gather_async().run(engine, on_failure="shrink") as run:
        assert len(list(run)) == 7
        (line,) = [line for line in run.ledger().balances() if line.produced]
    assert (line.produced, line.held, line.dropped) == (8, 0, {"worker_lost": 1})


def test_part_of_the_new_shards_is_refused():
    """New shards are gathered all together: a selection would lose items."""
    flow = rf.from_range(4).repartition(3).select_shards([0]).gather_async()
    assert any("gathered all together" in problem for problem in flow.check())
