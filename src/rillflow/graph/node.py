"""The one node type. A flow is a handle on a node; a program is the nodes behind its output.

These kinds are all there are; every other operator is derived from them. What a kind does while a
flow runs is told in one place, `scheduler/kinds.py`.

    actors     one shard per source actor                            (parallel)
    shards     a union or selection of the shards of other flows     (parallel)
    route      items sent on to a second group of actors             (parallel)
    transform  one item in, any number out; in the actor or the driver
    gather     parallel to sequential, as rounds (sync) or as ready (async)
    split      every item to each of n ports (`port` nodes read them)
    union      several streams into one
    enqueue    put each item on a bounded queue, and pass it on
    dequeue    take items from a queue
    admit      hold back the requests of a gather by the version of its sources' weights
    fresh      drop, mark or wait for items that were made with old weights
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

Kind = str
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """One operator: what it is, what it reads, where it runs. Compared by identity."""

    kind: Kind
    label: str
    """human-readable, e.g. `for_each(double)`; the program makes it unique"""
    inputs: tuple[Node, ...] = ()
    parallel: bool = False
    """runs inside the source actors, one copy per shard"""
    name: str | None = None
    """a name given by the user, instead of the label"""
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    def __getitem__(self, option: str) -> Any:
        return self.options[option]

    def __reduce__(self) -> Any:
        # a mapping proxy cannot be pickled, and a flow must travel to an actor that runs it
        values = (self.kind, self.label, self.inputs, self.parallel, self.name, dict(self.options))
        return _rebuild, values


def _rebuild(
    kind: Kind,
    label: str,
    inputs: tuple[Node, ...],
    parallel: bool,
    name: str | None,
    options: dict[str, Any],
) -> Node:
    return Node(
        kind=kind, label=label, inputs=inputs, parallel=parallel, name=name, options=options
    )
