"""zip_with_source_actor: the handle of whoever made an item."""

from collections import Counter

import rillflow as rf
from rillflow.testing import flow_of
from tests.ops.parts import everything


def test_two_sources_two_items_each(engine):
    """Four items of two shards come from exactly two actors, two from each."""
    flow = rf.from_items([1, 2, 3, 4]).gather_async().zip_with_source_actor()
    pairs = everything(flow, engine)
    assert sorted(item for _, item in pairs) == [1, 2, 3, 4]
    assert sorted(Counter(repr(actor) for actor, _ in pairs).items()) == [
        ("<actor items-0>", 2), ("<actor items-1>", 2)
    ]  # fmt: skip


def test_item_and_actor_belong_together():
    """Odd items were dealt to the first shard, even ones to the second."""
    flow = rf.from_items([1, 2, 3, 4]).gather_async().zip_with_source_actor()
    assert all(actor.index == (item + 1) % 2 for actor, item in everything(flow))


def test_in_the_actor(engine):
    """Inside the actor the pair names the actor itself."""
    flow = rf.from_items("ab").zip_with_source_actor().gather_sync().flatten()
    assert [(actor.index, item) for actor, item in everything(flow, engine)] == [(0, "a"), (1, "b")]


def test_several_sources():
    """An item that several actors made is paired with all of them."""
    flow = rf.from_items("ab").gather_sync().zip_with_source_actor()
    ((actors, items),) = everything(flow)
    assert [actor.index for actor in actors] == [0, 1]
    assert items == ["a", "b"]


def test_survives_a_batch():
    """After a batch the pair names every contributor, not the last one."""
    flow = rf.from_items("abcd").gather_async().batch(4).zip_with_source_actor()
    ((actors, _),) = everything(flow)
    assert {actor.index for actor in actors} == {0, 1}


def test_of_the_driver():
    """A list in the driver is an actor as well."""
    ((actor, item),) = everything(flow_of(["x"]).zip_with_source_actor())
    assert (repr(actor), item) == ("<actor items-0>", "x")
