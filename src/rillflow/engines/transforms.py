"""Transforms: one item in, any number out. The same code runs inside actors and in the driver.

Marks are an item's provenance, opaque here: sequence numbers in an actor, tickets in the driver.
Whoever runs a transform supplies an `Accounts`, which is told when marks are dropped or shared.

The state of a transform is a dict with three entries, so that whoever saves it can tell a user's
data from ours: `fn`, what `get_state` of the callable gave; `inside`, the items inside the
transform, as pairs of value and marks; `own`, plain data of the transform itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from rillflow.callables import owner_of
from rillflow.graph.node import Node

Marks = tuple[Any, ...]
Outs = list[tuple[Any, Marks]]
State = dict[str, Any]


class Accounts(Protocol):
    """What a transform needs from whoever runs it."""

    def drop(self, marks: Marks, reason: str) -> None:
        """Items with these marks will never reach an output."""
        ...

    def share(self, marks: Marks, extra: int) -> None:
        """These marks now belong to `extra` further items."""
        ...

    def context(self, marks: Marks) -> Any:
        """The context for a callable that asks for one."""
        ...

    def handle(self, marks: Marks) -> Any:
        """The actor (or actors) that made this item."""
        ...


class Transform:
    """Base class: a transform that keeps nothing, reads its items and never ends."""

    reads = True
    """whether the transform needs the value; False: a reference is passed on unread"""
    holds = False
    """whether the transform may keep items for later"""
    divides = False
    """whether several items may come of one"""
    ends = False
    """whether the transform may take no more items at some time"""
    ended = False

    def __init__(
        self, node: Node, fn: Callable[..., Any] | None, accounts: Accounts, seed: int
    ) -> None:
        self.fn: Any = fn
        self.accounts = accounts
        self.reads = self.reads and not getattr(fn, "takes_ref", False)
        self.with_context = bool(node.options.get("ctx"))

    def feed(self, value: Any, marks: Marks) -> Outs:
        """Consume one item."""
        raise NotImplementedError

    def flush(self) -> Outs:
        """The input has ended: give what is left."""
        return []

    def inside(self) -> Outs:
        """The items inside, with their marks; where only marks are known, the value is None."""
        return []

    def clear(self) -> None:
        """The run is over: let go of every item."""

    def get_state(self) -> State:
        """State to save: of the user's callable, of the items inside, of the transform itself."""
        owner = owner_of(self.fn)
        fn = owner.get_state() if hasattr(owner, "get_state") else None
        return {"fn": fn, "inside": self.inside(), "own": None}

    def set_state(self, state: State) -> None:
        """Restore what `get_state` returned."""
        if state["fn"] is not None:
            owner_of(self.fn).set_state(state["fn"])

    def _call(self, value: Any, marks: Marks) -> Any:
        if self.with_context:
            return self.fn(value, self.accounts.context(marks))
        return self.fn(value)


class ForEach(Transform):
    """Apply a callable."""

    def feed(self, value: Any, marks: Marks) -> Outs:
        if self.with_context:
            return [(self.fn(value, self.accounts.context(marks)), marks)]
        return [(self.fn(value), marks)]


class Filter(Transform):
    """Keep what a predicate likes."""

    def feed(self, value: Any, marks: Marks) -> Outs:
        if self._call(value, marks):
            return [(value, marks)]
        self.accounts.drop(marks, "filtered")
        return []


class Flatten(Transform):
    """Elements of a list, one by one."""

    divides = True

    def feed(self, value: Any, marks: Marks) -> Outs:
        items = _as_list(value, "flatten takes items that are lists")
        if not items:
            self.accounts.drop(marks, "empty")
            return []
        self.accounts.share(marks, len(items) - 1)
        return [(item, marks) for item in items]


class Combine(Transform):
    """A flat-map whose callable may collect; provenance collects with it."""

    divides = True
    holds = True

    def __init__(
        self, node: Node, fn: Callable[..., Any] | None, accounts: Accounts, seed: int
    ) -> None:
        super().__init__(node, fn, accounts, seed)
        self.marks: list[Any] = []

    def feed(self, value: Any, marks: Marks) -> Outs:
        outs = _as_list(self._call(value, marks), "the callable given to combine returns a list")
        self.marks.extend(marks)
        if not outs:
            return []
        united, self.marks = tuple(self.marks), []
        self.accounts.share(united, len(outs) - 1)
        return [(out, united) for out in outs]

    def inside(self) -> Outs:
        return [(None, tuple(self.marks))] if self.marks else []

    def set_state(self, state: State) -> None:
        super().set_state(state)
        self.marks = [mark for _, marks in state["inside"] for mark in marks]


class Batch(Transform):
    """Lists of n."""

    reads = False
    holds = True

    def __init__(
        self, node: Node, fn: Callable[..., Any] | None, accounts: Accounts, seed: int
    ) -> None:
        super().__init__(node, fn, accounts, seed)
        self.n = node["n"]
        self.values: list[Any] = []
        self.marks: list[Marks] = []

    def feed(self, value: Any, marks: Marks) -> Outs:
        self.values.append(value)
        self.marks.append(marks)
        return self.flush() if len(self.values) >= self.n else []

    def flush(self) -> Outs:
        if not self.values:
            return []
        values, marks = self.values, self.marks
        self.values, self.marks = [], []
        return [(values, tuple(mark for group in marks for mark in group))]

    def inside(self) -> Outs:
        return list(zip(self.values, self.marks, strict=True))

    def clear(self) -> None:
        self.values, self.marks = [], []

    def set_state(self, state: State) -> None:
        self.values = [value for value, _ in state["inside"]]
        self.marks = [tuple(marks) for _, marks in state["inside"]]


class Shuffle(Transform):
    """A reservoir: full, it gives a random element for each new one."""

    reads = False
    holds = True

    def __init__(
        self, node: Node, fn: Callable[..., Any] | None, accounts: Accounts, seed: int
    ) -> None:
        super().__init__(node, fn, accounts, seed)
        self.n = node["n"]
        self.rng = random.Random(seed if node["seed"] is None else node["seed"])
        self.buffer: Outs = []

    def feed(self, value: Any, marks: Marks) -> Outs:
        self.buffer.append((value, marks))
        return [self._draw()] if len(self.buffer) >= self.n else []

    def flush(self) -> Outs:
        return [self._draw() for _ in range(len(self.buffer))]

    def _draw(self) -> tuple[Any, Marks]:
        return self.buffer.pop(self.rng.randrange(len(self.buffer)))

    def inside(self) -> Outs:
        return list(self.buffer)

    def clear(self) -> None:
        self.buffer = []

    def get_state(self) -> State:
        version, numbers, gauss = self.rng.getstate()
        return {**super().get_state(), "own": [version, list(numbers), gauss]}

    def set_state(self, state: State) -> None:
        self.buffer = [(value, tuple(marks)) for value, marks in state["inside"]]
        version, numbers, gauss = state["own"]
        self.rng.setstate((version, tuple(numbers), gauss))


class Repeat(Transform):
    """Every item so many times; so many newer ones come between two times of it.

    Nothing is ever pushed out: an item stays until its last time has come.
    """

    holds = True
    divides = True

    def __init__(
        self, node: Node, fn: Callable[..., Any] | None, accounts: Accounts, seed: int
    ) -> None:
        super().__init__(node, fn, accounts, seed)
        self.times: int = node["times"]
        self.after: int = node["after"]
        self.newest_last: Outs = []
        """items whose last time is still to come"""

    def feed(self, value: Any, marks: Marks) -> Outs:
        self.accounts.share(marks, self.times - 1)
        if not self.after:
            return [(value, marks)] * self.times
        self.newest_last.append((value, marks))
        return self._due(0)

    def flush(self) -> Outs:
        return [out for later in range(1, self._most + 1) for out in self._due(later)]

    @property
    def _most(self) -> int:
        """How many newer items come before the last time of an item."""
        return (self.times - 1) * self.after

    def _due(self, later: int) -> Outs:
        """Those whose time it is, the newest first; `later`: so many turns without a new item."""
        aged = range(later, self._most + 1)  # of the newest item first
        items = list(zip(aged, reversed(self.newest_last), strict=False))
        due = [item for age, item in items if age % self.after == 0]
        if len(items) > self._most - later:  # the oldest has had its last time
            del self.newest_last[0]
        return due

    def inside(self) -> Outs:
        return list(self.newest_last)

    def clear(self) -> None:
        self.newest_last = []

    def set_state(self, state: State) -> None:
        self.newest_last = [(value, tuple(marks)) for value, marks in state["inside"]]


class Limit(Transform):
    """The first n, then the end."""

    reads = False
    ends = True

    def __init__(
        self, node: Node, fn: Callable[..., Any] | None, accounts: Accounts, seed: int
    ) -> None:
        super().__init__(node, fn, accounts, seed)
        self.remaining = node["n"]

    @property
    def ended(self) -> bool:  # type: ignore[override]
        return bool(self.remaining <= 0)

    def feed(self, value: Any, marks: Marks) -> Outs:
        if self.remaining <= 0:
            self.accounts.drop(marks, "limit")
            return []
        self.remaining -= 1
        return [(value, marks)]

    def get_state(self) -> State:
        return {"fn": None, "inside": [], "own": self.remaining}

    def set_state(self, state: State) -> None:
        self.remaining = state["own"]


class ZipWithSource(Transform):
    """Pairs of source actor and item."""

    reads = False

    def feed(self, value: Any, marks: Marks) -> Outs:
        return [((self.accounts.handle(marks), value), marks)]


_TRANSFORMS: dict[str, type[Transform]] = {
    "for_each": ForEach,
    "filter": Filter,
    "flatten": Flatten,
    "combine": Combine,
    "batch": Batch,
    "shuffle": Shuffle,
    "repeat": Repeat,
    "limit": Limit,
    "zip_with_source_actor": ZipWithSource,
}


def make_transform(
    node: Node, fn: Callable[..., Any] | None, accounts: Accounts, seed: int
) -> Transform:
    """The running form of a transform node; `fn` is the copy of its callable for this run."""
    return _TRANSFORMS[node["op"]](node, fn, accounts, seed)


def _as_list(value: Any, rule: str) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | dict):
        return list(value)
    raise TypeError(f"{rule}; got {type(value).__name__}")
