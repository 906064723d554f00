"""Actors, queues and background operators as values: they come to life when a run starts.

A handle is compared by its `uid`, survives pickling and is never copied with the operators that
hold it, so a plan may capture `workers` anywhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from rillflow.arguments import is_count
from rillflow.callables import label_of, owner_of
from rillflow.errors import BuildError
from rillflow.types import ActorInfo, FailurePolicy, Placement, Reaction

if TYPE_CHECKING:
    from rillflow.graph.context import Context

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")


def _uid() -> str:
    return uuid.uuid4().hex


class Handle:
    """Something that exists only while a flow runs; compared by `uid`."""

    uid: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and self.uid == other.uid

    def __hash__(self) -> int:
        return hash(self.uid)

    def __deepcopy__(self, memo: dict[int, Any]) -> Handle:
        return self  # every run copies its operators, but never what they point to


class ActorHandle(Handle):
    """One actor of a group; operators send it messages through their context.

    A handle travels as a name and an index: what the group's actors are made of stays behind.
    """

    def __init__(self, group: Actors, index: int) -> None:
        self.group = group
        self.index = index
        self.uid = f"{group.uid}/{index}"

    def __reduce__(self) -> Any:
        group = self.group
        return _handle, (group.uid, group.name, group.count, group.placement, self.index)

    def __repr__(self) -> str:
        return f"<actor {self.group.name}-{self.index}>"


def _handle(uid: str, name: str, count: int, placement: Placement, index: int) -> ActorHandle:
    group = Actors(factory=_elsewhere, count=count, name=name, placement=placement, uid=uid)
    return ActorHandle(group, index)


def _elsewhere(*_: Any, **__: Any) -> None:
    raise BuildError(
        "a handle that has travelled names its actors and cannot make them anew; hold the group "
        "itself where a flow is to start it."
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Actors(Handle):
    """A group of actors to be: a class, its arguments, how many, where. Creating it starts nothing.

    >>> workers = Actors.of(dict, 4, name="worker")
    >>> len(workers), workers[1]
    (4, <actor worker-1>)
    """

    factory: Callable[..., Any]
    count: int
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    each: tuple[tuple[Any, ...], ...] | None = None
    """arguments of each actor, put before `args`; None: the same for all"""
    name: str = ""
    placement: Placement = "process"
    policy: FailurePolicy | None = None
    """None: the policy of the run"""
    resources: Mapping[str, float] = field(default_factory=dict)
    """what one actor needs on a cluster, e.g. {"num_cpus": 1}; only the ray engine reads it"""
    mailbox: int = 64
    """messages that may be under way to one actor: operators that send messages without a version
    to the group wait until the actor has handled some"""
    uid: str = field(default_factory=_uid)

    @staticmethod
    def of(
        factory: Callable[..., Any],
        count: int,
        *args: Any,
        name: str | None = None,
        placement: Placement = "process",
        on_failure: FailurePolicy | Reaction | None = None,
        resources: Mapping[str, float] | None = None,
        each: Sequence[tuple[Any, ...]] | None = None,
        mailbox: int = 64,
        **kwargs: Any,
    ) -> Actors:
        """`count` actors, each `factory(*args, **kwargs)`.

        A factory with a parameter called `info` is given its ActorInfo (name, index, seed, ...).
        """
        if not callable(factory):
            raise BuildError(
                f"an actor is made by calling its class; {factory!r} cannot be called. "
                "Pass a class or a function that returns the actor."
            )
        if not is_count(count):
            raise BuildError(
                f"a group of actors needs a count of at least 1; {label_of(factory)} got {count!r}."
            )
        if placement not in ("process", "thread", "driver"):
            raise BuildError(
                f"unknown placement {placement!r} for actor {label_of(factory)}; "
                "choose 'process', 'thread' or 'driver'."
            )
        if not is_count(mailbox):
            raise BuildError(
                f"a mailbox holds at least one message; {label_of(factory)} got {mailbox!r}."
            )
        if each is not None and len(each) != count:
            raise BuildError(
                f"`each` has one entry per actor; {label_of(factory)} has {count} actors "
                f"and {len(each)} entries."
            )
        return Actors(
            factory=factory,
            count=count,
            args=args,
            kwargs=kwargs,
            each=None if each is None else tuple(each),
            name=name or label_of(factory).lower(),
            placement=placement,
            policy=None if on_failure is None else FailurePolicy.of(on_failure),
            resources=dict(resources or {}),
            mailbox=mailbox,
        )

    def arguments(self, index: int) -> tuple[Any, ...]:
        """Positional arguments of actor `index`; one added later is like the last."""
        own = () if self.each is None else self.each[min(index, len(self.each) - 1)]
        return (*own, *self.args)

    def __len__(self) -> int:
        return self.count

    @overload
    def __getitem__(self, index: int) -> ActorHandle: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ActorHandle]: ...
    def __getitem__(self, index: int | slice) -> ActorHandle | Sequence[ActorHandle]:
        if isinstance(index, slice):
            return [ActorHandle(self, i) for i in range(*index.indices(self.count))]
        if not -self.count <= index < self.count:
            raise IndexError(f"{self!r} has no actor {index}")
        return ActorHandle(self, index % self.count)

    def __iter__(self) -> Iterator[ActorHandle]:
        return (ActorHandle(self, i) for i in range(self.count))

    def __repr__(self) -> str:
        return f"<{self.count} actors {self.name!r} of {label_of(self.factory)}>"


WhenFull = Literal["wait", "drop_newest", "drop_oldest"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Queue(Handle, Generic[T]):
    """A bounded queue between branches; when full its producers wait (or drop, counted)."""

    capacity: int = 16
    name: str = "queue"
    when_full: WhenFull = "wait"
    ends: tuple[Background[Any, Any], ...] = field(default=(), repr=False)
    """background operators that read or fill this queue"""
    uid: str = field(default_factory=_uid)

    def __post_init__(self) -> None:
        if not isinstance(self.capacity, int) or self.capacity < 1:
            raise BuildError(
                f"a queue holds at least one item; {self.name!r} got capacity {self.capacity!r}. "
                "An unbounded queue hides a learner that cannot keep up; choose a bound."
            )
        if self.when_full not in ("wait", "drop_newest", "drop_oldest"):
            raise BuildError(
                f"unknown policy {self.when_full!r} of queue {self.name!r}; "
                "choose 'wait', 'drop_newest' or 'drop_oldest'."
            )

    def __repr__(self) -> str:
        return f"<queue {self.name!r} of {self.capacity}>"


class Background(Handle, Generic[T, U]):
    """An operator on a thread or actor of its own, between two bounded queues: usually a learner.

    Put items on `inqueue` with `Enqueue`, take results from `outqueue` with `Dequeue`. The operator
    works while the driver does other things, and stops when its out-queue is full. A callable's
    method `begin(info)` is called once, where the callable lives, before the first item.
    """

    def __init__(
        self,
        fn: Callable[[T], U] | Callable[[T, Context], U],
        *,
        name: str | None = None,
        inqueue: Queue[T] | None = None,
        outqueue: Queue[U] | None = None,
        placement: Placement = "thread",
        on_failure: FailurePolicy | Reaction | None = None,
    ) -> None:
        if not callable(fn):
            raise BuildError(f"a background operator is a callable; got {fn!r}.")
        self.fn = fn
        self.name = name or label_of(fn)
        self.uid = _uid()
        self.inqueue: Queue[T] = self._attach(inqueue or Queue(name=f"{self.name}.in"))
        self.outqueue: Queue[U] = self._attach(outqueue or Queue(name=f"{self.name}.out"))
        self.actors = Actors.of(
            CallableActor, 1, fn, name=self.name, placement=placement, on_failure=on_failure
        )

    def _attach(self, queue: Queue[V]) -> Queue[V]:
        """The same queue (by its uid), knowing that this operator is at one of its ends."""
        return replace(queue, ends=(*queue.ends, self))

    def __repr__(self) -> str:
        return f"<background {self.name!r} on a {self.actors.placement}>"


class CallableActor:
    """The actor behind a background operator or a routed map: applies a function."""

    def __init__(self, fn: Callable[[Any], Any], info: ActorInfo) -> None:
        self.fn = fn
        begin = getattr(fn, "begin", None)
        if begin is not None:
            begin(info)

    def close(self) -> None:
        """Let the wrapped callable end what it has started."""
        close = getattr(owner_of(self.fn), "close", None)
        if callable(close):
            close()

    def get_state(self) -> Any:
        """State of the wrapped callable, if it has any to tell."""
        get = getattr(owner_of(self.fn), "get_state", None)
        return get() if get is not None else None

    def set_state(self, state: Any) -> None:
        """Give the wrapped callable its state back."""
        if state is not None:
            owner_of(self.fn).set_state(state)
