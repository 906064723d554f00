"""`Flow[T]` and `ParallelFlow[T]`: typed, immutable handles on a node of the graph.

Every method builds a node and returns a new handle; nothing runs until `run`, `take` or `iter`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from rillflow.errors import BuildError
from rillflow.graph import annotations as types
from rillflow.graph.handles import ActorHandle, Actors, Background, CallableActor, Queue
from rillflow.graph.node import Node, label_of
from rillflow.types import FailurePolicy, Placement, Reaction

if TYPE_CHECKING:
    from rillflow.engines.base import Engine
    from rillflow.engines.run import Run
    from rillflow.ops.context import Context

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
EngineName = Literal["sim", "local", "ray"]


class _Stream(Generic[T]):
    """What both kinds of stream share: the pictures, and the checks of an operator's arguments."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def explain(self) -> str:
        """The flow as a text tree: operators, where each runs, shards, barriers, queue bounds."""
        from rillflow.graph.render import to_text

        return to_text(self.node)

    def to_mermaid(self) -> str:
        """The flow as a Mermaid flowchart."""
        from rillflow.graph.render import to_mermaid

        return to_mermaid(self.node)

    def to_svg(self) -> str:
        """The flow as a self-contained SVG picture."""
        from rillflow.graph.svg import to_svg

        return to_svg(self.node)

    def to_json(self) -> dict[str, Any]:
        """The flow as plain data: the one schema every picture is made from."""
        from rillflow.graph.schema import to_json

        return to_json(self.node)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.node.name or self.node.label})"

    def _transform(
        self,
        op: str,
        fn: Callable[..., Any] | None = None,
        *,
        label: str | None = None,
        name: str | None = None,
        gives: Any = types.UNKNOWN,
        **options: Any,
    ) -> Node:
        """A transform node behind this one, with the types of the two neighbours compared."""
        if fn is not None and not callable(fn):
            raise BuildError(f"{op} takes a callable; got {fn!r}.")
        if label is None:
            label = op if fn is None else f"{op}({label_of(fn)})"
        here = self.node.options.get("gives", types.UNKNOWN)
        if fn is not None:
            types.require_agreement(here, fn, self.node.label, label)
            options["ctx"] = types.wants_context(fn)
        return Node(
            kind="transform",
            label=label,
            inputs=(self.node,),
            parallel=self.node.parallel,
            name=name,
            options={"op": op, "fn": fn, "gives": gives, **options},
        )

    def _element(self) -> Any:
        return types.element_type(self.node.options.get("gives", types.UNKNOWN))


class ParallelFlow(_Stream[T]):
    """One shard per source actor; transformations run inside the actor, next to its state."""

    __slots__ = ()

    @overload
    def for_each(
        self, fn: Callable[[T], U], *, max_concurrency: int = 1, name: str | None = None
    ) -> ParallelFlow[U]: ...
    @overload
    def for_each(
        self, fn: Callable[[T, Context], U], *, max_concurrency: int = 1, name: str | None = None
    ) -> ParallelFlow[U]: ...
    def for_each(
        self, fn: Callable[..., Any], *, max_concurrency: int = 1, name: str | None = None
    ) -> ParallelFlow[Any]:
        """Apply `fn` to each item, in the actor that made it; a copy of `fn` per shard.

        With `max_concurrency=k` the calls of each shard are spread over k helper actors.
        """
        _positive("for_each", "max_concurrency", max_concurrency)
        if max_concurrency > 1:
            return self._spread(fn, max_concurrency, name)
        gives = types.output_type(fn) if callable(fn) else types.UNKNOWN
        return ParallelFlow(self._transform("for_each", fn, name=name, gives=gives))

    par_for_each = for_each

    def filter(self, fn: Callable[[T], bool], *, name: str | None = None) -> ParallelFlow[T]:
        """Keep the items for which `fn` is true, in the actor that made them."""
        return ParallelFlow(self._transform("filter", fn, name=name, gives=_gives(self.node)))

    def batch(self, n: int, *, name: str | None = None) -> ParallelFlow[list[T]]:
        """Lists of `n` items of one shard; a shorter one at the end of the shard."""
        _positive("batch", "n", n)
        return ParallelFlow(self._transform("batch", name=name, label=f"batch({n})", n=n))

    def flatten(self: ParallelFlow[list[U]], *, name: str | None = None) -> ParallelFlow[U]:
        """The elements of each item, one by one."""
        return ParallelFlow(self._transform("flatten", name=name, gives=self._element()))

    def combine(
        self, fn: Callable[[T], Sequence[U]], *, name: str | None = None
    ) -> ParallelFlow[U]:
        """`fn` gives a list for each item, often empty while it collects; its elements flow on."""
        return ParallelFlow(self._transform("combine", fn, name=name))

    def local_shuffle(
        self, buffer: int, seed: int | None = None, *, name: str | None = None
    ) -> ParallelFlow[T]:
        """Fill a buffer in each shard, then emit a random element of it for each new item."""
        _positive("local_shuffle", "buffer", buffer)
        node = self._transform(
            "shuffle",
            name=name,
            label=f"local_shuffle({buffer})",
            n=buffer,
            seed=seed,
            gives=_gives(self.node),
        )
        return ParallelFlow(node)

    def limit(self, n: int, *, name: str | None = None) -> ParallelFlow[T]:
        """End each shard after `n` items."""
        _positive("limit", "n", n)
        node = self._transform(
            "limit", name=name, label=f"limit({n})", n=n, gives=_gives(self.node)
        )
        return ParallelFlow(node)

    def zip_with_source_actor(
        self, *, name: str | None = None
    ) -> ParallelFlow[tuple[ActorHandle, T]]:
        """Pair each item with the handle of the actor that made it."""
        return ParallelFlow(self._transform("zip_with_source_actor", name=name))

    def gather_sync(self, *, name: str | None = None) -> Flow[list[T]]:
        """One list per round, one item of each shard in shard order: a barrier.

        Round t+1 is requested only when everything downstream is done with round t, so a message
        sent there is seen by every item of round t+1.
        """
        return Flow(_gather(self.node, "gather_sync", name, mode="sync", num_async=1))

    batch_across_shards = gather_sync

    def gather_async(self, *, num_async: int = 1, name: str | None = None) -> Flow[T]:
        """Items as soon as they are ready, with at most `num_async` requests of each shard open.

        A request stays open until everything downstream is done with its item.
        """
        _positive("gather_async", "num_async", num_async)
        return Flow(_gather(self.node, "gather_async", name, mode="async", num_async=num_async))

    def union(self, *others: ParallelFlow[T], name: str | None = None) -> ParallelFlow[T]:
        """The shards of this flow, then those of the others, as one parallel flow."""
        for other in others:
            if not isinstance(other, ParallelFlow):
                raise BuildError(
                    f"union joins parallel flows with parallel flows; got {other!r}. "
                    "Gather both sides first, then use Union(...)."
                )
        inputs = (self.node, *(other.node for other in others))
        node = Node(
            kind="shards",
            label="union",
            inputs=inputs,
            parallel=True,
            name=name,
            options={"keep": None},
        )
        return ParallelFlow(node)

    def select_shards(self, keep: Sequence[int], *, name: str | None = None) -> ParallelFlow[T]:
        """Only the shards with these indexes."""
        count = self.num_shards()
        chosen = tuple(keep)
        if not chosen or any(not 0 <= i < count for i in chosen) or len(set(chosen)) < len(chosen):
            raise BuildError(
                f"select_shards takes different indexes from 0 to {count - 1}, at least one; "
                f"got {list(chosen)}."
            )
        node = Node(
            kind="shards",
            label=f"select_shards({list(chosen)})",
            inputs=(self.node,),
            parallel=True,
            name=name,
            options={"keep": chosen},
        )
        return ParallelFlow(node)

    def get_shard(self, index: int) -> Flow[T]:
        """The items of one shard, in order."""
        return self.select_shards([index]).gather_sync().flatten()

    def shards(self) -> list[Flow[T]]:
        """Each shard as a flow of its own."""
        return [self.get_shard(i) for i in range(self.num_shards())]

    def repartition(self, n: int, *, name: str | None = None) -> ParallelFlow[T]:
        """`n` new shards; item k of an old shard goes, unread, to new shard k mod n."""
        _positive("repartition", "n", n)
        return self._route(n, f"repartition({n})", lambda item: item, name)

    def split(self, n: int = 2) -> tuple[Flow[Any], ...]:
        """`gather_sync` (concatenated, where the source says how), then `Flow.split`."""
        rounds: Flow[Any] = self.gather_sync()
        concat = _option(self.node, "concat")
        return (rounds.for_each(concat) if concat is not None else rounds).split(n)

    duplicate = split

    def num_shards(self) -> int:
        """How many shards there are."""
        return count_shards(self.node)

    def take(self, n: int, *, engine: EngineName | Engine = "local", seed: int = 0) -> list[T]:
        """The first `n` items, gathered in rounds."""
        return self.gather_sync().flatten().take(n, engine=engine, seed=seed)

    def __iter__(self) -> Iterator[T]:
        raise TypeError(
            f"a parallel flow has no single order: {self.node.label!r} must be gathered first, "
            "with .gather_sync() or .gather_async()."
        )

    def _spread(self, fn: Callable[..., Any], k: int, name: str | None) -> ParallelFlow[Any]:
        label = f"for_each({label_of(fn)}, max_concurrency={k})"
        return self._route(self.num_shards() * k, label, fn, name, per_shard=k)

    def _route(
        self, n: int, label: str, fn: Callable[..., Any], name: str | None, per_shard: int = 0
    ) -> ParallelFlow[Any]:
        """Send each item, unread, to one of `n` helper actors that apply `fn` to it."""
        source = _gather(self.node, "forward", None, mode="async", num_async=max(1, per_shard))
        helpers = Actors.of(CallableActor, n, fn, name=label.split("(")[0])
        node = Node(
            kind="route",
            label=label,
            inputs=(source,),
            parallel=True,
            name=name,
            options={"actors": helpers, "per_shard": per_shard},
        )
        return ParallelFlow(node)


class Flow(_Stream[T]):
    """One sequence of items in the driver."""

    __slots__ = ()

    @overload
    def for_each(
        self,
        fn: Callable[[T], U],
        *,
        on: Placement = "driver",
        capacity: int = 2,
        name: str | None = None,
    ) -> Flow[U]: ...
    @overload
    def for_each(
        self,
        fn: Callable[[T, Context], U],
        *,
        on: Placement = "driver",
        capacity: int = 2,
        name: str | None = None,
    ) -> Flow[U]: ...
    def for_each(
        self,
        fn: Callable[..., Any],
        *,
        on: Placement = "driver",
        capacity: int = 2,
        name: str | None = None,
    ) -> Flow[Any]:
        """Apply `fn` to each item: in the driver, or on a thread or process of its own.

        `fn` may be a function or a stateful object; with a second parameter `ctx` it is given the
        context: provenance, messages to actors, counters.
        """
        from rillflow.graph.queues import Enqueue

        if isinstance(fn, Enqueue):
            return Flow(fn.node(self.node, name))
        if on != "driver":
            return self._in_background(fn, on, capacity, name)
        gives = types.output_type(fn) if callable(fn) else types.UNKNOWN
        return Flow(self._transform("for_each", fn, name=name, gives=gives))

    def par_for_each(self, fn: Callable[..., Any], **options: Any) -> Flow[Any]:
        """Refused: a sequential flow has no actors to run in."""
        raise BuildError(
            f"par_for_each runs inside source actors, but {self.node.label!r} is a sequential flow "
            f"in the driver. Call it before gathering, or use for_each({label_of(fn)}) here."
        )

    def filter(self, fn: Callable[[T], bool], *, name: str | None = None) -> Flow[T]:
        """Keep the items for which `fn` is true; the others are counted as dropped."""
        return Flow(self._transform("filter", fn, name=name, gives=_gives(self.node)))

    def batch(self, n: int, *, name: str | None = None) -> Flow[list[T]]:
        """Lists of `n` items; a shorter one at the end."""
        _positive("batch", "n", n)
        return Flow(self._transform("batch", name=name, label=f"batch({n})", n=n))

    def flatten(self: Flow[list[U]], *, name: str | None = None) -> Flow[U]:
        """The elements of each item, one by one."""
        return Flow(self._transform("flatten", name=name, gives=self._element()))

    def combine(self, fn: Callable[[T], Sequence[U]], *, name: str | None = None) -> Flow[U]:
        """`fn` gives a list for each item, often empty while it collects; its elements flow on."""
        return Flow(self._transform("combine", fn, name=name))

    def shuffle(self, buffer: int, seed: int | None = None, *, name: str | None = None) -> Flow[T]:
        """Fill a buffer, then emit a random element of it for each new item."""
        _positive("shuffle", "buffer", buffer)
        node = self._transform(
            "shuffle",
            name=name,
            label=f"shuffle({buffer})",
            n=buffer,
            seed=seed,
            gives=_gives(self.node),
        )
        return Flow(node)

    def limit(self, n: int, *, name: str | None = None) -> Flow[T]:
        """End the flow after `n` items."""
        _positive("limit", "n", n)
        node = self._transform(
            "limit", name=name, label=f"limit({n})", n=n, gives=_gives(self.node)
        )
        return Flow(node)

    def zip_with_source_actor(self, *, name: str | None = None) -> Flow[tuple[ActorHandle, T]]:
        """Pair each item with the actor that made it (a tuple of handles if several)."""
        return Flow(self._transform("zip_with_source_actor", name=name))

    def split(self, n: int = 2, *, buffer: int = 1) -> tuple[Flow[T], ...]:
        """`n` flows that each see every item once; no child runs more than `buffer` items ahead."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 2:
            raise BuildError(f"split makes at least 2 children; {self.node.label!r} got n={n!r}.")
        _positive("split", "buffer", buffer)
        label = f"split({n})"
        node = Node(
            kind="split", label=label, inputs=(self.node,), options={"n": n, "buffer": buffer}
        )
        gives = _gives(self.node)
        return tuple(
            Flow(
                Node(
                    kind="port",
                    label=f"{label}[{i}]",
                    inputs=(node,),
                    options={"index": i, "gives": gives},
                )
            )
            for i in range(n)
        )

    duplicate = split

    def union(self, *others: Flow[Any], weights: Sequence[float] | None = None) -> Flow[Any]:
        """This flow and the others as one; see `Union`."""
        from rillflow.graph.merge import Union

        return Union(self, *others, weights=weights)

    def gather_sync(self, **_: Any) -> Flow[Any]:
        """Refused: a sequential flow is gathered already."""
        raise self._already_gathered("gather_sync")

    def gather_async(self, **_: Any) -> Flow[Any]:
        """Refused: a sequential flow is gathered already."""
        raise self._already_gathered("gather_async")

    def batch_across_shards(self, **_: Any) -> Flow[Any]:
        """Refused: a sequential flow has no shards."""
        raise self._already_gathered("batch_across_shards")

    def run(
        self,
        engine: EngineName | Engine = "local",
        *,
        seed: int = 0,
        on_failure: FailurePolicy | Reaction | None = None,
        trace: bool = False,
    ) -> Run[T]:
        """Check the flow and make it ready to run; iterate the result, in a `with` block.

        `on_failure` is the policy of every actor group that has none of its own. `trace=True`
        keeps a log of scheduling events in `run.trace`.
        """
        from rillflow.engines.run import Run

        return Run(self.node, engine, seed=seed, on_failure=on_failure, trace=trace)

    def take(self, n: int, *, engine: EngineName | Engine = "local", seed: int = 0) -> list[T]:
        """The first `n` items (fewer if the flow ends), on a run of its own."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise BuildError(f"take needs a count of 0 or more; got {n!r}.")
        with self.run(engine, seed=seed) as run:
            return list(itertools.islice(run, n))

    def show(self, n: int = 20, *, engine: EngineName | Engine = "local") -> None:
        """Print the first `n` items."""
        for item in self.take(n, engine=engine):
            print(item)

    def check(self) -> list[str]:
        """Everything that would make this flow fail, without starting anything."""
        from rillflow.graph.check import problems

        return problems(self.node)

    def __iter__(self) -> Iterator[T]:
        return iter(self.run())

    def _already_gathered(self, what: str) -> BuildError:
        return BuildError(
            f"{what} turns a parallel flow into a sequential one, but {self.node.label!r} is "
            "sequential already. Remove the call."
        )

    def _in_background(
        self, fn: Callable[..., Any], on: Placement, capacity: int, name: str | None
    ) -> Flow[Any]:
        from rillflow.graph.merge import Concurrently
        from rillflow.graph.queues import Dequeue, Enqueue

        _positive("for_each", "capacity", capacity)
        label = name or label_of(fn)
        background = Background(
            fn,
            name=label,
            placement=on,
            inqueue=Queue(capacity=capacity, name=f"{label}.in"),
            outqueue=Queue(capacity=capacity, name=f"{label}.out"),
        )
        feed = self.for_each(Enqueue(background.inqueue))
        return Concurrently([feed, Dequeue(background.outqueue)], mode="async", output_indexes=[1])


def count_shards(node: Node) -> int:
    """How many shards a parallel node has."""
    if node.kind == "shards":
        keep = node["keep"]
        return len(keep) if keep is not None else sum(count_shards(i) for i in node.inputs)
    if node.kind in ("actors", "route"):
        return len(node["actors"])
    return count_shards(node.inputs[0])


def _gather(node: Node, label: str, name: str | None, *, mode: str, num_async: int) -> Node:
    gives = _gives(node)
    if mode == "sync" and gives is not types.UNKNOWN:
        gives = list[gives]  # type: ignore[valid-type]
    shown = f"{label}(num_async={num_async})" if num_async > 1 else label
    return Node(
        kind="gather",
        label=shown,
        inputs=(node,),
        name=name,
        options={"mode": mode, "num_async": num_async, "gives": gives},
    )


def _gives(node: Node) -> Any:
    return node.options.get("gives", types.UNKNOWN)


def _option(node: Node, option: str) -> Any:
    """An option of the source, through filters and the like, which keep the item's type."""
    while node.kind == "transform" and node["op"] in ("filter", "limit", "shuffle"):
        node = node.inputs[0]
    return node.options.get(option)


def _positive(operator: str, argument: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BuildError(
            f"{operator}: {argument} must be a whole number of at least 1; got {value!r}."
        )
