"""`ParallelFlow[T]`: one shard per source actor, as a typed, immutable handle.

Transformations run inside the actors; `gather_sync` and `gather_async` lead to a `Flow`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rillflow.callables import label_of
from rillflow.errors import BuildError
from rillflow.flows.flow import Flow
from rillflow.flows.stream import EngineName, Stream, gives_of, require_positive
from rillflow.graph import annotations as types
from rillflow.graph.handles import ActorHandle, Actors, CallableActor
from rillflow.graph.node import Node

if TYPE_CHECKING:
    from rillflow.engines.contract import Engine
    from rillflow.graph.context import Context

T = TypeVar("T")
U = TypeVar("U")


class ParallelFlow(Stream[T]):
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
        require_positive("for_each", "max_concurrency", max_concurrency)
        if max_concurrency > 1:
            return self._spread(fn, max_concurrency, name)
        gives = types.output_type(fn) if callable(fn) else types.UNKNOWN
        return ParallelFlow(self._transform("for_each", fn, name=name, gives=gives))

    par_for_each = for_each

    def filter(self, fn: Callable[[T], bool], *, name: str | None = None) -> ParallelFlow[T]:
        """Keep the items for which `fn` is true, in the actor that made them."""
        return ParallelFlow(self._transform("filter", fn, name=name, gives=gives_of(self.node)))

    def batch(self, n: int, *, name: str | None = None) -> ParallelFlow[list[T]]:
        """Lists of `n` items of one shard; a shorter one at the end of the shard."""
        require_positive("batch", "n", n)
        return ParallelFlow(self._transform("batch", name=name, label=f"batch({n})", n=n))

    def flatten(self: ParallelFlow[list[U]], *, name: str | None = None) -> ParallelFlow[U]:
        """The elements of each item, one by one."""
        return ParallelFlow(self._transform("flatten", name=name, gives=self._element()))

    @overload
    def combine(
        self, fn: Callable[[T], Sequence[U]], *, name: str | None = None
    ) -> ParallelFlow[U]: ...
    @overload
    def combine(
        self, fn: Callable[[T, Context], Sequence[U]], *, name: str | None = None
    ) -> ParallelFlow[U]: ...
    def combine(self, fn: Callable[..., Any], *, name: str | None = None) -> ParallelFlow[Any]:
        """`fn` gives a list for each item, often empty while it collects; its elements flow on."""
        return ParallelFlow(self._transform("combine", fn, name=name))

    def local_shuffle(
        self, buffer: int, seed: int | None = None, *, name: str | None = None
    ) -> ParallelFlow[T]:
        """Fill a buffer in each shard, then emit a random element of it for each new item."""
        require_positive("local_shuffle", "buffer", buffer)
        node = self._transform(
            "shuffle",
            name=name,
            label=f"local_shuffle({buffer})",
            n=buffer,
            seed=seed,
            gives=gives_of(self.node),
        )
        return ParallelFlow(node)

    def limit(self, n: int, *, name: str | None = None) -> ParallelFlow[T]:
        """End each shard after `n` items."""
        require_positive("limit", "n", n)
        node = self._transform(
            "limit", name=name, label=f"limit({n})", n=n, gives=gives_of(self.node)
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
        require_positive("gather_async", "num_async", num_async)
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
        require_positive("repartition", "n", n)
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


def count_shards(node: Node) -> int:
    """How many shards a parallel node has."""
    if node.kind == "shards":
        keep = node["keep"]
        return len(keep) if keep is not None else sum(count_shards(i) for i in node.inputs)
    if node.kind in ("actors", "route"):
        return len(node["actors"])
    return count_shards(node.inputs[0])


def _gather(node: Node, label: str, name: str | None, *, mode: str, num_async: int) -> Node:
    gives = gives_of(node)
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


def _option(node: Node, option: str) -> Any:
    """An option of the source, through filters and the like, which keep the item's type."""
    while node.kind == "transform" and node["op"] in ("filter", "limit", "shuffle"):
        node = node.inputs[0]
    return node.options.get(option)
