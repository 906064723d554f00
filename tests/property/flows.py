"""Random small flows over counting actors, and what must hold for each of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

import rillflow as rf
from rillflow.engines.sim import Sim
from rillflow.engines.sim_faults import Fail, Fault, InjectedFailure, Kill


class Tagger:
    """Gives numbered items that say who made them and with which weights; `items` of them."""

    def __init__(self, info: rf.ActorInfo, items: int) -> None:
        self.info = info
        self.items = items
        self.n = 0
        self.weights = 0

    def next(self) -> tuple[str, int, int, int]:
        if self.n >= self.items:
            raise rf.EndOfStream
        self.n += 1
        return (self.info.name, self.info.incarnation, self.n, self.weights)

    def set_weights(self, version: int) -> None:
        self.weights = version


class Answer(rf.Operator[Any, Any]):
    """Sends a new version of the weights to the actors that made the item."""

    def __init__(self) -> None:
        self.version = 0

    def __call__(self, item: Any, ctx: rf.Context) -> Any:
        self.version += 1
        ctx.send(ctx.sources, "set_weights", self.version, version=self.version)
        return item


class EverySecond(rf.Operator[Any, Any]):
    """A flat-map that gives nothing, then two items as one."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def __call__(self, item: Any) -> list[Any]:
        self.kept.append(item)
        if len(self.kept) < 2:
            return []
        out, self.kept = self.kept, []
        return [out]


@dataclass(frozen=True)
class Recipe:
    """All the choices that make one random flow and its run."""

    shards: int
    items: int
    num_async: int
    sync: bool
    actor_ops: tuple[str, ...]
    driver_ops: tuple[str, ...]
    shape: str
    weights: tuple[float, float]
    policy: str
    faults: tuple[Fault, ...]
    latency: float
    seed: int


ORDERED = ("map", "filter", "batch", "answer", "combine", "mark", "limit")

SHAPES = ("plain", "split", "union", "weighted", "queue", "thread", "repartition")
ACTORS = st.sampled_from(("tagger-0", "tagger-1"))

recipes = st.builds(
    Recipe,
    shards=st.integers(1, 3),
    items=st.integers(0, 9),
    num_async=st.integers(1, 3),
    sync=st.booleans(),
    actor_ops=st.lists(st.sampled_from(("map", "filter", "batch")), max_size=2).map(tuple),
    driver_ops=st.lists(st.sampled_from(ORDERED), max_size=3).map(tuple),
    shape=st.sampled_from(SHAPES),
    weights=st.tuples(st.sampled_from((1.0, 2.0, 0.5)), st.sampled_from((1.0, 3.0))),
    policy=st.sampled_from(("restart", "shrink", "drop")),
    faults=st.lists(
        st.one_of(
            st.builds(
                Kill, actor=ACTORS, request=st.integers(1, 6),
                late_result=st.booleans(),
            ),
            st.builds(Fail, actor=ACTORS, request=st.integers(1, 6)),
        ),
        max_size=2,
    ).map(tuple),
    latency=st.sampled_from((0.0, 0.1, 1.0)),
    seed=st.integers(0, 2**16),
)  # fmt: skip


def keep_odd(item: Any) -> bool:
    return first(item)[2] % 2 == 1


def first(item: Any) -> tuple[Any, ...]:
    """The innermost first element: batches may be nested."""
    while isinstance(item, list):
        item = item[0]
    return item  # type: ignore[no-any-return]


def leaves(item: Any) -> list[tuple[Any, ...]]:
    """All tagged items inside an item."""
    if isinstance(item, list):
        return [leaf for part in item for leaf in leaves(part)]
    return [item]


def build(recipe: Recipe) -> rf.Flow[Any]:
    flow = _source(recipe, "tagger")
    if recipe.shape == "union":
        return rf.Union(_driver(recipe, flow), _source(recipe, "other"))
    if recipe.shape == "weighted":
        return rf.Union(_driver(recipe, flow), _source(recipe, "other"), weights=recipe.weights)
    if recipe.shape == "split":
        left, right = flow.split()
        return rf.Union(_driver(recipe, left), right)
    if recipe.shape == "queue":
        queue: rf.Queue[Any] = rf.Queue(capacity=2, name="middle")
        feed = _driver(recipe, flow).for_each(rf.Enqueue(queue))
        return rf.Concurrently([feed, rf.Dequeue(queue)], mode="async", output_indexes=[1])
    if recipe.shape == "thread":
        return _driver(recipe, flow).for_each(lambda item: item, on="thread")
    return _driver(recipe, flow)


def _source(recipe: Recipe, name: str) -> rf.Flow[Any]:
    actors = rf.Actors.of(Tagger, recipe.shards, recipe.items, name=name)
    flow = rf.from_actors(actors)
    for op in recipe.actor_ops:
        if op == "map":
            flow = flow.for_each(lambda item: item)
        elif op == "filter":
            flow = flow.filter(keep_odd)
        else:
            flow = flow.batch(2)
    if recipe.shape == "repartition":
        flow = flow.repartition(2)
    if recipe.sync:
        return flow.gather_sync().flatten()
    return flow.gather_async(num_async=recipe.num_async)


def _driver(recipe: Recipe, flow: rf.Flow[Any]) -> rf.Flow[Any]:
    for op in recipe.driver_ops:
        if op == "map":
            flow = flow.for_each(lambda item: item)
        elif op == "filter":
            flow = flow.filter(keep_odd)
        elif op == "batch":
            flow = flow.batch(3)
        elif op == "answer":
            flow = flow.for_each(Answer())
        elif op == "combine":
            flow = flow.combine(EverySecond())
        elif op == "limit":
            flow = flow.limit(5)
        else:
            flow = flow.for_each(_mark)
    return flow


def _mark(item: Any, ctx: rf.Context) -> Any:
    ctx.mark("trained")
    return item


@dataclass
class Outcome:
    """What a run gave, and the log of what happened."""

    items: list[Any] = field(default_factory=list)
    trace: list[tuple[Any, ...]] = field(default_factory=list)


def run_and_check(recipe: Recipe, engine: str | rf.Engine | None = None) -> Outcome:
    """Run to the end; at every step the ledger balances and nothing exceeds its bound."""
    outcome = Outcome()
    if engine is None:
        span = recipe.latency
        latency = (lambda rng: rng.random() * span) if span else None
        engine = Sim(latency, faults=recipe.faults)
    bound = recipe.num_async if not recipe.sync else 1
    if recipe.shape == "repartition":
        bound += (
            10  # items that wait for their partition are done for their source: no bound on lag
        )
    # each operator that answers sends messages of its own, and the bound is per such operator
    lag = bound * max(1, recipe.driver_ops.count("answer"))
    with build(recipe).run(engine, seed=recipe.seed, on_failure=recipe.policy, trace=True) as run:  # type: ignore[arg-type]
        while True:
            try:
                item = next(run)
            except StopIteration:
                break
            except (rf.WorkerLost, InjectedFailure):
                continue  # the last worker of a shrinking group; the others go on
            outcome.items.append(item)
            _check_step(run, bound, lag)
            assert len(outcome.items) < 1000, "a finite flow ends"
        _check_end(run, recipe)
        outcome.trace = run.trace
    return outcome


def _check_step(run: rf.Run[Any], bound: int, lag: int) -> None:
    ledger = run.ledger()
    assert ledger.balanced, str(ledger)
    for name, worker in run.workers().items():
        if name.startswith(("tagger", "other")):
            assert worker["in_flight"] <= bound
    audit = run._scheduler.audit()
    for account in ledger.accounts.values():
        lines = account.balances()
        if len(lines) == 1:
            assert lines[0].held == audit.get(account.source, 0), str(ledger)
    for line in run.stats().operators:
        assert line.lag_max <= lag, f"{line.name} saw weights {line.lag_max} versions old"
        assert line.capacity is None or line.depth <= line.capacity


def _check_end(run: rf.Run[Any], recipe: Recipe) -> None:
    for line in run.ledger().balances():
        assert line.balanced, str(line)
        if "limit" not in recipe.driver_ops:
            assert line.in_flight == 0, "an ended flow has nothing on its way"


def check_order(items: list[Any]) -> None:
    """Items of one incarnation of one actor come in the order in which it made them."""
    seen: dict[tuple[str, int], list[int]] = defaultdict(list)
    for item in items:
        for actor, incarnation, n, _ in leaves(item):
            seen[actor, incarnation].append(n)
    for who, numbers in seen.items():
        assert numbers == sorted(numbers), f"{who} out of order: {numbers}"
