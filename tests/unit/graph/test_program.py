"""The shards of a program: counted without being made, and made without going round in circles."""

from __future__ import annotations

import rillflow as rf
from rillflow.graph.program import Program


def same(x: int) -> int:
    return x


def test_shards_are_counted_as_they_are_made() -> None:
    one, two = (rf.from_range(8, num_shards=n).for_each(same) for n in (2, 3))
    both = one.union(two).for_each(same)
    few = both.select_shards([0, 4])
    for flow, count in ((one, 2), (both, 5), (few, 2), (few.for_each(same), 2)):
        program = Program(flow.gather_sync().node)
        assert program.places[flow.node] == len(program.shards(flow.node)) == count
        assert flow.gather_sync().node not in program.places


def test_chain_of_thousands_of_operators_has_shards() -> None:
    flow = rf.from_range(8, num_shards=2)
    for _ in range(3000):
        flow = flow.for_each(same)
    program = Program(flow.gather_sync().node)
    assert program.places[flow.node] == 2
    assert [len(shard.chain) for shard in program.shards(flow.node)] == [3000, 3000]
