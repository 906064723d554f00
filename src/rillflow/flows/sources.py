"""Where parallel flows come from: existing actors, lists, ranges, iterators."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

from rillflow.callables import label_of
from rillflow.errors import BuildError, EndOfStream
from rillflow.flows.parallel import ParallelFlow
from rillflow.graph.annotations import UNKNOWN, method_type, output_type
from rillflow.graph.handles import Actors
from rillflow.graph.neighbours import either_of, require_no_arguments
from rillflow.graph.node import Node
from rillflow.graph.values import type_of_iterable, type_of_values
from rillflow.types import ActorInfo, FailurePolicy, Placement, Reaction

T = TypeVar("T")


@overload
def from_actors(
    actors: Actors,
    method: Callable[[Any], T],
    *,
    concat: Callable[[list[Any]], Any] | None = None,
    name: str | None = None,
    label: str | None = None,
) -> ParallelFlow[T]: ...
@overload
def from_actors(
    actors: Actors,
    method: str = "next",
    *,
    concat: Callable[[list[Any]], Any] | None = None,
    name: str | None = None,
    label: str | None = None,
) -> ParallelFlow[Any]: ...
def from_actors(
    actors: Actors,
    method: str | Callable[[Any], Any] = "next",
    *,
    concat: Callable[[list[Any]], Any] | None = None,
    name: str | None = None,
    label: str | None = None,
) -> ParallelFlow[Any]:
    """One shard per actor; each request calls `method` once, and EndOfStream ends the shard.

    A `name` is unique in a flow; a `label` is numbered where it repeats, so operators that are made
    of `from_actors` can be used twice.

    >>> class Counter:
    ...     def __init__(self): self.n = 0
    ...     def next(self): self.n += 1; return self.n
    >>> from_actors(Actors.of(Counter, 2)).take(4, engine="sim")
    [1, 1, 2, 2]

    The method may be given itself, so that a type checker knows what it returns.

    >>> from_actors(Actors.of(Counter, 2), Counter.next)
    ParallelFlow(from_actors(Counter.next))
    """
    if not isinstance(actors, Actors):
        raise BuildError(f"from_actors takes a group made by Actors.of(...); got {actors!r}.")
    if not isinstance(method, str):
        method = label_of(method)
    made = _made_by(actors.factory)
    target = getattr(made, method, None)
    if isinstance(actors.factory, type) and not callable(target):
        raise BuildError(
            f"from_actors: {label_of(actors.factory)} has no method {method!r} to make items with. "
            "Define it, or name another with method=..."
        )
    require_no_arguments(made, method)
    gives = method_type(made, method) if callable(target) else UNKNOWN
    node = Node(
        kind="actors",
        label=label or f"from_actors({label_of(actors.factory)}.{method})",
        parallel=True,
        name=name,
        options={"actors": actors, "method": method, "concat": concat, "gives": gives},
    )
    return ParallelFlow(node)


def _made_by(factory: Callable[..., Any]) -> Any:
    """The class of an actor: the factory itself, or what it is annotated to return."""
    return factory if isinstance(factory, type) else output_type(factory)


def from_items(
    items: Sequence[T],
    num_shards: int = 2,
    *,
    repeat: bool = False,
    placement: Placement = "process",
    on_failure: FailurePolicy | Reaction | None = None,
) -> ParallelFlow[T]:
    """Deal items to shards in turn: item i goes to shard i mod n."""
    items = list(items)
    _shards("from_items", num_shards)
    dealt = [items[i::num_shards] for i in range(num_shards)]
    gives, label = type_of_values(items), f"from_items({len(items)})"
    return _iterate(label, dealt, repeat, placement, on_failure, gives)


def from_range(
    n: int,
    num_shards: int = 2,
    *,
    repeat: bool = False,
    placement: Placement = "process",
    on_failure: FailurePolicy | Reaction | None = None,
) -> ParallelFlow[int]:
    """0 to n-1 in contiguous slices, one per shard; the last takes the remainder."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise BuildError(f"from_range needs a count of 0 or more; got {n!r}.")
    _shards("from_range", num_shards)
    size = n // num_shards
    bounds = [*(size * i for i in range(num_shards)), n]
    slices = [range(bounds[i], bounds[i + 1]) for i in range(num_shards)]
    return _iterate(f"from_range({n})", slices, repeat, placement, on_failure, int)


def from_iterators(
    iterables: Sequence[Iterable[T] | Callable[[], Iterable[T]]],
    *,
    repeat: bool = False,
    placement: Placement = "process",
    on_failure: FailurePolicy | Reaction | None = None,
) -> ParallelFlow[T]:
    """One shard per iterable, or per function that returns one (a generator cannot be shipped)."""
    iterables = list(iterables)
    if not iterables:
        raise BuildError("from_iterators needs at least one iterable.")
    label = f"from_iterators({len(iterables)})"
    gives = either_of(type_of_iterable(one) for one in iterables)
    return _iterate(label, iterables, repeat, placement, on_failure, gives)


def _iterate(
    label: str,
    per_shard: Sequence[Any],
    repeat: bool,
    placement: Placement,
    on_failure: FailurePolicy | Reaction | None,
    gives: Any,
) -> ParallelFlow[Any]:
    actors = Actors.of(
        IteratorActor,
        len(per_shard),
        each=[(one,) for one in per_shard],
        repeat=repeat,
        name=label.split("(")[0].removeprefix("from_"),
        placement=placement,
        on_failure=on_failure,
    )
    node = Node(
        kind="actors",
        label=label,
        parallel=True,
        options={"actors": actors, "method": "next", "gives": gives},
    )
    return ParallelFlow(node)


class IteratorActor:
    """An actor that gives the items of an iterable, once or for ever."""

    def __init__(self, iterable: Any, repeat: bool, info: ActorInfo) -> None:
        self.iterable = iterable
        self.repeat = repeat
        self.position = 0
        self.broken: Exception | None = None
        self.iterator = self._start()
        self._skip(info.asked)  # what an earlier incarnation was asked for is not given twice

    def _start(self) -> Iterator[Any]:
        return iter(self.iterable() if callable(self.iterable) else self.iterable)

    def next(self) -> Any:
        """The next item; EndOfStream after the last."""
        if self.broken is not None:
            raise RuntimeError("this generator has raised and cannot go on") from self.broken
        for fresh in (False, True):
            if fresh:
                self.iterator, self.position = self._start(), 0
            try:
                item = next(self.iterator)
            except StopIteration:
                if not self.repeat:
                    break
                continue
            except Exception as error:
                # a generator that raised is dead; asked again it would say that it has ended
                self.broken = error if inspect.isgenerator(self.iterator) else None
                raise
            self.position += 1
            return item
        raise EndOfStream

    def get_state(self) -> int:
        """How many items of this pass were given."""
        return self.position

    def set_state(self, position: int) -> None:
        """Start again and skip what was given."""
        self.iterator, self.position = self._start(), 0
        self._skip(position)

    def _skip(self, count: int) -> None:
        """Pass over so many items, as often round as it takes if they repeat."""
        while count > 0:
            passed = sum(1 for _ in itertools.islice(self.iterator, count))
            self.position += passed
            count -= passed
            if count == 0 or not self.repeat or self.position == 0:
                return
            self.iterator, self.position = self._start(), 0


def _shards(operator: str, num_shards: object) -> None:
    if isinstance(num_shards, bool) or not isinstance(num_shards, int) or num_shards < 1:
        raise BuildError(
            f"{operator}: num_shards must be a whole number of at least 1; got {num_shards!r}."
        )
