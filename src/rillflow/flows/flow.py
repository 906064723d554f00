"""`Flow[T]`: one sequence of items in the driver, as a typed, immutable handle.

Every method builds a node and returns a new handle; nothing runs until `run`, `take` or `iter`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar, overload

from rillflow.callables import label_of
from rillflow.errors import BuildError
from rillflow.flows.stream import Elements, EngineName, Stream, gives_of, require_positive
from rillflow.graph.handles import ActorHandle, Background, Queue
from rillflow.graph.neighbours import require_agreement
from rillflow.graph.node import Node
from rillflow.types import FailurePolicy, Placement, Reaction

if TYPE_CHECKING:
    from rillflow.engines.contract import Engine
    from rillflow.flows.queues import Enqueue
    from rillflow.graph.context import Context
    from rillflow.scheduler.run import Run

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


class Flow(Stream[T_co]):
    """One sequence of items in the driver."""

    __slots__ = ()

    @overload
    def for_each(self, fn: Enqueue[T_co], *, name: str | None = None) -> Flow[T_co]: ...
    @overload
    def for_each(
        self,
        fn: Callable[[T_co], U],
        *,
        on: Placement = "driver",
        capacity: int = 2,
        name: str | None = None,
    ) -> Flow[U]: ...
    @overload
    def for_each(
        self,
        fn: Callable[[T_co, Context], U],
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
        from rillflow.flows.queues import Enqueue

        if isinstance(fn, Enqueue):
            return Flow(fn.node(self.node, name))
        if on != "driver":
            return self._in_background(fn, on, capacity, name)
        return Flow(self._transform("for_each", fn, name=name))

    def par_for_each(self, fn: Callable[..., Any], **options: Any) -> Flow[Any]:
        """Refused: a sequential flow has no actors to run in."""
        raise BuildError(
            f"par_for_each runs inside source actors, but {self.node.label!r} is a sequential flow "
            f"in the driver. Call it before gathering, or use for_each({label_of(fn)}) here."
        )

    @overload
    def filter(self, fn: Callable[[T_co], TypeGuard[U]], *, name: str | None = None) -> Flow[U]: ...
    @overload
    def filter(self, fn: Callable[[T_co], bool], *, name: str | None = None) -> Flow[T_co]: ...
    def filter(self, fn: Callable[[T_co], Any], *, name: str | None = None) -> Flow[Any]:
        """Keep the items for which `fn` is true; the others are counted as dropped."""
        return Flow(self._transform("filter", fn, name=name))

    def batch(self, n: int, *, name: str | None = None) -> Flow[list[T_co]]:
        """Lists of `n` items; a shorter one at the end."""
        require_positive("batch", "n", n)
        return Flow(self._transform("batch", name=name, label=f"batch({n})", n=n))

    def flatten(self: Flow[Elements[U]], *, name: str | None = None) -> Flow[U]:
        """The elements of each item, one by one."""
        return Flow(self._transform("flatten", name=name))

    @overload
    def combine(self, fn: Callable[[T_co], Sequence[U]], *, name: str | None = None) -> Flow[U]: ...
    @overload
    def combine(
        self, fn: Callable[[T_co, Context], Sequence[U]], *, name: str | None = None
    ) -> Flow[U]: ...
    def combine(self, fn: Callable[..., Any], *, name: str | None = None) -> Flow[Any]:
        """`fn` gives a list for each item, often empty while it collects; its elements flow on."""
        return Flow(self._transform("combine", fn, name=name))

    def shuffle(
        self, buffer: int, seed: int | None = None, *, name: str | None = None
    ) -> Flow[T_co]:
        """Fill a buffer, then emit a random element of it for each new item."""
        require_positive("shuffle", "buffer", buffer)
        node = self._transform(
            "shuffle",
            name=name,
            label=f"shuffle({buffer})",
            n=buffer,
            seed=seed,
        )
        return Flow(node)

    def repeat(self, times: int, *, after: int = 0, name: str | None = None) -> Flow[T_co]:
        """Each item so many times, with so many newer items between two times of it.

        Nothing is pushed out: an item is held until its last time, and a request that it came from
        is settled when all of its times are done with. When the input ends the rest follows.
        """
        require_positive("repeat", "times", times)
        if type(after) is not int or after < 0:
            raise BuildError(f"repeat: after must be a whole number of at least 0; got {after!r}.")
        if after and times == 1:
            raise BuildError(
                f"repeat: after={after} is what comes between two times of an item, and with "
                "times=1 there is one; leave it out, or repeat items."
            )
        label = f"repeat({times}, after={after})" if after else f"repeat({times})"
        return Flow(self._transform("repeat", name=name, label=label, times=times, after=after))

    def limit(self, n: int, *, name: str | None = None) -> Flow[T_co]:
        """End the flow after `n` items."""
        require_positive("limit", "n", n)
        return Flow(self._transform("limit", name=name, label=f"limit({n})", n=n))

    def zip_with_source_actor(self, *, name: str | None = None) -> Flow[tuple[ActorHandle, T_co]]:
        """Pair each item with the actor that made it (a tuple of handles if several)."""
        return Flow(self._transform("zip_with_source_actor", name=name))

    def admit(
        self,
        *,
        max_lag: int,
        batch: int,
        order: Literal["submission", "completion"] = "submission",
        channel: str | None = None,
        name: str | None = None,
    ) -> Flow[T_co]:
        """Ask the sources only for what may still be used while it is fresh; behind a gather.

        >>> import rillflow as rf
        >>> numbers = rf.from_range(6, 2).gather_async(num_async=3)
        >>> numbers.admit(max_lag=1, batch=3).take(6, engine="sim")
        [0, 1, 2, 3, 4, 5]

        Requests are made while accepted + under way < (max_lag + version + 1) * batch. A consumer
        that makes a version of each `batch` items then never uses one older than `max_lag`, if
        items go on in the order of their requests; with `order="completion"` that is so on average.
        """
        from rillflow.scheduler.admit import admit_node  # workers know flows without a scheduler

        return Flow(admit_node(self.node, max_lag, batch, order, channel, name))

    def fresh(
        self,
        *,
        max_lag: int,
        on_stale: Literal["drop", "wait", "mark"] = "drop",
        size: Callable[[T_co], float] | None = None,
        channel: str | None = None,
        name: str | None = None,
    ) -> Flow[T_co]:
        """Look at the age of each item, in versions of the weights that it was made with.

        >>> import rillflow as rf
        >>> numbers = rf.from_range(4, 2).gather_async()
        >>> numbers.fresh(max_lag=2, on_stale="mark").take(4, engine="sim")
        [0, 2, 1, 3]

        What is older than `max_lag` is dropped (in the ledger as `stale`), or passed on and marked
        (`ctx.lag` says how old it is); with "wait", newer items wait for older ones that are still
        to come. Counters say how many items were fresh and stale and, by `size`, how long: to drop
        what is old is to drop what took long.
        """
        from rillflow.scheduler.fresh import fresh_node

        if size is not None:
            producer = self.node.name or self.node.label
            require_agreement(
                gives_of(self.node), size, producer, f"size={label_of(size)} of fresh"
            )
        return Flow(fresh_node(self.node, max_lag, on_stale, size, channel, name))

    def split(self, n: int = 2, *, buffer: int = 1) -> tuple[Flow[T_co], ...]:
        """`n` flows that each see every item once; no child runs more than `buffer` items ahead."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 2:
            raise BuildError(f"split makes at least 2 children; {self.node.label!r} got n={n!r}.")
        require_positive("split", "buffer", buffer)
        label = f"split({n})"
        node = Node(
            kind="split", label=label, inputs=(self.node,), options={"n": n, "buffer": buffer}
        )
        gives = gives_of(self.node)
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

    def union(self, *others: Flow[U], weights: Sequence[float] | None = None) -> Flow[T_co | U]:
        """This flow and the others as one; see `Union`."""
        from rillflow.flows.merge import Union

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
    ) -> Run[T_co]:
        """Check the flow and make it ready to run; iterate the result, in a `with` block.

        `on_failure` is the policy of every actor group that has none of its own. `trace=True`
        keeps a log of scheduling events in `run.trace`.
        """
        from rillflow.scheduler.run import Run

        return Run(self.node, engine, seed=seed, on_failure=on_failure, trace=trace)

    def take(self, n: int, *, engine: EngineName | Engine = "local", seed: int = 0) -> list[T_co]:
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
        from rillflow.scheduler.run import problems

        return problems(self.node)

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.run())

    def _already_gathered(self, what: str) -> BuildError:
        return BuildError(
            f"{what} turns a parallel flow into a sequential one, but {self.node.label!r} is "
            "sequential already. Remove the call."
        )

    def _in_background(
        self, fn: Callable[..., Any], on: Placement, capacity: int, name: str | None
    ) -> Flow[Any]:
        from rillflow.flows.merge import Concurrently
        from rillflow.flows.queues import Dequeue, Enqueue

        require_positive("for_each", "capacity", capacity)
        label = name or label_of(fn)
        background: Background[Any, Any] = Background(
            fn,
            name=label,
            placement=on,
            inqueue=Queue(capacity=capacity, name=f"{label}.in"),
            outqueue=Queue(capacity=capacity, name=f"{label}.out"),
        )
        feed = self.for_each(Enqueue(background.inqueue))
        return Concurrently([feed, Dequeue(background.outqueue)], mode="async", output_indexes=[1])
