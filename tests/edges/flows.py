"""Random flows with everything that a state has to hold, and random histories of their members.

A plan extends a recipe of `tests.property.flows`: pieces, buffers and bound methods inside actors,
actors without a state of their own, queues and backgrounds in pairs, units, merges that end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import rillflow as rf
from tests.property.flows import Answer, EverySecond, Recipe, Tagger, keep_odd, leaves, recipes

# -- actors and callables --------------------------------------------------------------------------


class Saved(Tagger):
    """A tagger that can be saved; it also gives several items as one."""

    def several(self) -> list[tuple[str, int, int, int]]:
        """One to three pieces."""
        tag = self.next()
        return [tag] * (1 + self.n % 3)

    def get_state(self) -> list[int]:
        return [self.n, self.weights]

    def set_state(self, state: list[int]) -> None:
        self.n, self.weights = state


class Stateless:
    """Gives its name and its weights for ever: all it knows is what it was told last."""

    def __init__(self, info: rf.ActorInfo, items: int) -> None:
        self.info = info
        self.weights = 0

    def next(self) -> tuple[str, int, int, int]:
        return (self.info.name, self.info.incarnation, 1, self.weights)

    def several(self) -> list[tuple[str, int, int, int]]:
        """Two pieces."""
        return [self.next()] * 2

    def set_weights(self, version: int) -> None:
        self.weights = version


class Publish(rf.Operator[Any, Any]):
    """Sends a new version of the weights to a whole group for each item."""

    def __init__(self, group: rf.Actors) -> None:
        self.group = group
        self.version = 0

    def __call__(self, item: Any, ctx: rf.Context) -> Any:
        self.version += 1
        ctx.send(self.group, "set_weights", self.version, version=self.version)
        return item


class Stamps:
    """Numbers items in a method that serves as an operator."""

    def __init__(self) -> None:
        self.n = 0

    def number(self, item: Any) -> list[Any]:
        self.n += 1
        return [item, ("stamp", 0, self.n, 0)]

    def get_state(self) -> int:
        return self.n

    def set_state(self, n: int) -> None:
        self.n = n


class Numbers(Stamps):
    """The same as a callable of its own."""

    def __call__(self, item: Any) -> list[Any]:
        return self.number(item)


def twice(item: Any) -> list[Any]:
    return [item, item]


def tag(n: int) -> tuple[str, int, int, int]:
    return ("range", 0, n, 0)


def cost(item: Any) -> float:
    """Nothing, one or two."""
    return len(leaves(item)) % 3


def sources(item: Any, ctx: rf.Context) -> list[Any]:
    """The item, with where it came from and with which weights."""
    found = [(s.actor, s.incarnation, s.seq, s.version) for s in ctx.provenance]
    return [item, *found]


# -- plans -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """All the choices that make one random flow."""

    base: Recipe
    """counts, gather, weights, latency and seed; its operators and faults are not used"""
    source: str
    inside: tuple[str, ...]
    after: tuple[str, ...]
    shape: str


@dataclass(frozen=True)
class Change:
    """Somebody joins or leaves before an item is pulled."""

    moment: int
    kind: str
    which: int


@dataclass(frozen=True)
class History:
    """When a run is saved, and who comes and goes before and after."""

    cut: int
    before: tuple[Change, ...]
    after: tuple[Change, ...]


SOURCES = ("saved", "pieces", "stateless", "range")
INSIDE = ("map", "filter", "batch", "shuffle", "combine", "twice", "method", "object", "limit")
AFTER = (*INSIDE, "publish", "answer", "mark", "sources")
SHAPES = (
    "plain", "split", "union", "weighted", "units", "queue", "two queues", "thread", "process",
    "two backgrounds", "repartition", "spread", "inner", "inner queue",
)  # fmt: skip

plans = st.builds(
    Plan,
    base=recipes,
    source=st.sampled_from(SOURCES),
    inside=st.lists(st.sampled_from(INSIDE), max_size=3).map(tuple),
    after=st.lists(st.sampled_from(AFTER), max_size=3).map(tuple),
    shape=st.sampled_from(SHAPES),
)

changes = st.lists(
    st.builds(
        Change,
        moment=st.integers(0, 8),
        kind=st.sampled_from(("add", "remove")),
        which=st.integers(0, 3),
    ),
    max_size=3,
).map(tuple)

histories = st.builds(History, cut=st.integers(0, 12), before=changes, after=changes)


def build(plan: Plan) -> tuple[rf.Flow[Any], rf.Actors | None]:
    """The flow, and the group whose members may change."""
    flow, group = _source(plan, "tagger")
    other, _ = _source(plan, "other")
    own = _driver(plan, flow, group)
    return _SHAPES.get(plan.shape, lambda *_: own)(plan, flow, own, other), group


def _source(plan: Plan, name: str) -> tuple[rf.Flow[Any], rf.Actors | None]:
    base, group = plan.base, None
    flow: rf.ParallelFlow[Any]
    if plan.source == "range":
        flow = rf.from_range(4 * base.items, base.shards).for_each(tag)
    else:
        actor = Stateless if plan.source == "stateless" else Saved
        group = rf.Actors.of(actor, base.shards, 3 * base.items, name=name)
        flow = rf.from_actors(group, "several" if plan.source == "pieces" else "next")
        flow = flow.flatten() if plan.source == "pieces" else flow
    flow = _operators(flow, plan.inside, group)
    if plan.shape == "repartition":
        flow = flow.repartition(2)
    elif plan.shape == "spread":
        flow = flow.for_each(Numbers(), max_concurrency=2)
    if base.sync:
        return flow.gather_sync().flatten(), group
    return flow.gather_async(num_async=base.num_async), group


def _driver(plan: Plan, flow: rf.Flow[Any], group: rf.Actors | None) -> rf.Flow[Any]:
    after = [op for op in plan.after if group is not None or op not in ("publish", "answer")]
    if plan.source == "stateless":  # what only some of them were told, they could not save
        after = ["publish" if op == "answer" else op for op in after]
    return _operators(flow, tuple(after), group)


def _operators(flow: Any, names: tuple[str, ...], group: rf.Actors | None) -> Any:
    for name in names:
        flow = _OPERATORS[name](flow, group)
    return flow


def _mark(item: Any, ctx: rf.Context) -> Any:
    ctx.mark("trained")
    return item


def _shuffled(flow: Any, _: Any) -> Any:
    return flow.local_shuffle(3) if isinstance(flow, rf.ParallelFlow) else flow.shuffle(3)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "map": lambda flow, _: flow.for_each(lambda item: item),
    "filter": lambda flow, _: flow.filter(keep_odd),
    "batch": lambda flow, _: flow.batch(2),
    "shuffle": _shuffled,
    "combine": lambda flow, _: flow.combine(EverySecond()),
    "twice": lambda flow, _: flow.for_each(twice).flatten(),
    "method": lambda flow, _: flow.for_each(Stamps().number),
    "object": lambda flow, _: flow.for_each(Numbers()),
    "limit": lambda flow, _: flow.limit(9),
    "publish": lambda flow, group: flow.for_each(Publish(group)),
    "answer": lambda flow, _: flow.for_each(Answer()),
    "mark": lambda flow, _: flow.for_each(_mark),
    "sources": lambda flow, _: flow.for_each(sources),
}

Shape = Callable[[Plan, rf.Flow[Any], rf.Flow[Any], rf.Flow[Any]], rf.Flow[Any]]


def _split(plan: Plan, flow: rf.Flow[Any], own: rf.Flow[Any], other: rf.Flow[Any]) -> rf.Flow[Any]:
    left, right = own.split(buffer=2)
    return rf.Union(left.batch(2), right)


def _queue(plan: Plan, flow: rf.Flow[Any], own: rf.Flow[Any], other: rf.Flow[Any]) -> rf.Flow[Any]:
    queue: rf.Queue[Any] = rf.Queue(capacity=3)
    feed = own.for_each(rf.Enqueue(queue))
    return rf.Concurrently([feed, rf.Dequeue(queue).batch(2)], weights=[3, 1])


def _two_queues(
    plan: Plan, flow: rf.Flow[Any], own: rf.Flow[Any], other: rf.Flow[Any]
) -> rf.Flow[Any]:
    one: rf.Queue[Any] = rf.Queue(capacity=3)
    two: rf.Queue[Any] = rf.Queue(capacity=2)
    feeds = [own.for_each(rf.Enqueue(one)), other.for_each(rf.Enqueue(two))]
    reads = [rf.Dequeue(one), rf.Dequeue(two).for_each(Stamps().number)]
    return rf.Concurrently([*feeds, *reads], mode="async", output_indexes=[2, 3])


def _two_backgrounds(
    plan: Plan, flow: rf.Flow[Any], own: rf.Flow[Any], other: rf.Flow[Any]
) -> rf.Flow[Any]:
    out: rf.Queue[Any] = rf.Queue(capacity=3, name="out")
    both = [rf.Background(Numbers(), name=name, outqueue=out) for name in ("one", "two")]
    feeds = [
        branch.for_each(rf.Enqueue(background.inqueue))
        for branch, background in zip((own, other), both, strict=True)
    ]
    reader = rf.Dequeue(both[0].outqueue)
    return rf.Concurrently([*feeds, reader], mode="async", output_indexes=[2])


def _inner(plan: Plan, flow: rf.Flow[Any], own: rf.Flow[Any], other: rf.Flow[Any]) -> rf.Flow[Any]:
    one, two, three = own.split(3)
    inner = rf.Concurrently([one.limit(3), two], output_indexes=[0])
    return rf.Union(inner, three)


def _inner_queue(
    plan: Plan, flow: rf.Flow[Any], own: rf.Flow[Any], other: rf.Flow[Any]
) -> rf.Flow[Any]:
    queue: rf.Queue[Any] = rf.Queue(capacity=2)
    inner = rf.Concurrently([other.limit(4), own.for_each(rf.Enqueue(queue))], output_indexes=[0])
    return rf.Concurrently([inner, rf.Dequeue(queue)])


_SHAPES: dict[str, Shape] = {
    "split": _split,
    "union": lambda plan, flow, own, other: rf.Union(own, other),
    "weighted": lambda plan, flow, own, other: rf.Union(own, other, weights=plan.base.weights),
    "units": lambda plan, flow, own, other: rf.Union(
        own, other, weights=plan.base.weights, units=cost
    ),
    "queue": _queue,
    "two queues": _two_queues,
    "thread": lambda plan, flow, own, other: own.for_each(Numbers(), on="thread", capacity=2),
    "process": lambda plan, flow, own, other: own.for_each(Stamps().number, on="process"),
    "two backgrounds": _two_backgrounds,
    "inner": _inner,
    "inner queue": _inner_queue,
}


# -- playing ---------------------------------------------------------------------------------------


@dataclass
class Played:
    """What a run gave, and whether it has ended."""

    items: list[Any]
    ended: bool


def play(
    run: rf.Run[Any], group: rf.Actors | None, changes: tuple[Change, ...], count: int
) -> Played:
    """Pull items, and let members come and go at their moments."""
    items: list[Any] = []
    run.start()
    for moment in range(count):
        for change in changes:
            if change.moment == moment:
                _change(run, group, change)
        try:
            items.append(next(run))
        except StopIteration:
            return Played(items, ended=True)
    return Played(items, ended=False)


def _change(run: rf.Run[Any], group: rf.Actors | None, change: Change) -> None:
    if change.kind == "add":
        if group is not None:
            run.add_workers(group=group)
        return
    name = "range" if group is None else group.name
    members = [
        one
        for one, worker in run.workers().items()
        if one.startswith(f"{name}-") and worker["status"] == "live"
    ]
    if len(members) > 1:
        run.remove_worker(members[change.which % len(members)])
