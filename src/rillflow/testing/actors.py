"""Actors and operators of the conformance checks; importable, so that they can travel."""

from __future__ import annotations

import os
import signal
from typing import Any, ClassVar

import numpy as np

from rillflow.errors import EndOfStream, NotReady
from rillflow.flows.flow import Flow
from rillflow.graph.context import Context, Operator
from rillflow.graph.handles import Actors
from rillflow.types import ActorInfo, Ref


class Worker:
    """Gives 0, 1, 2, ... and remembers everything it was told."""

    def __init__(self, info: ActorInfo) -> None:
        self.name = info.name
        self.n = -1
        self.told: list[Any] = []

    def next(self) -> int:
        """How many items came before this one."""
        self.n += 1
        return self.n

    def named(self) -> tuple[str, int]:
        """The same, with its own name."""
        return self.name, self.next()

    def report(self) -> tuple[str, int, list[Any]]:
        """The same, with everything it was told before."""
        return self.name, self.next(), list(self.told)

    def tell(self, what: Any) -> None:
        """A message."""
        self.told.append(what)

    def last_told(self) -> Any:
        """The newest message, or None."""
        return self.told[-1] if self.told else None

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()

    def die(self) -> None:
        """End its own process, without a farewell."""
        os.kill(os.getpid(), signal.SIGKILL)

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"n": self.n, "told": list(self.told)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.n, self.told = state["n"], list(state["told"])


class Faulty(Worker):
    """Its second call raises, in its first life; with `only`, just the actor of that index."""

    def __init__(self, info: ActorInfo, only: int = 0) -> None:
        super().__init__(info)
        self.healthy = info.incarnation > 0 or info.index != only

    def next(self) -> int:
        """The next number, or the fault."""
        n = super().next()
        if n == 1 and not self.healthy:
            raise ValueError("the second call fails")
        return n


class Replay:
    """Not ready before it holds `need` items; then gives how often it was asked, and told."""

    def __init__(self, need: int) -> None:
        self.need = need
        self.items: list[Any] = []
        self.asked = 0

    def add(self, item: Any) -> None:
        """Store an item."""
        self.items.append(item)

    def replay(self) -> tuple[int, int]:
        """Requests and messages so far."""
        self.asked += 1
        if len(self.items) < self.need:
            raise NotReady
        return self.asked, len(self.items)

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"items": list(self.items), "asked": self.asked}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.items, self.asked = list(state["items"]), state["asked"]


class Arrays:
    """Gives a small and a large array in turn; says whether what it was told can be written to."""

    def __init__(self) -> None:
        self.n = 0
        self.writeable: list[bool] = []

    def next(self) -> tuple[Any, list[bool]]:
        """An array, and what it found out about those it was told."""
        self.n += 1
        return np.arange(10 if self.n % 2 else 100_000), list(self.writeable)

    def tell(self, array: Any) -> None:
        """Look at an array."""
        self.writeable.append(bool(array.flags.writeable))


class Parcel:
    """A value that knows how often it was serialised, and by how many hands it was read."""

    packed: ClassVar[int] = 0
    """how often any parcel was serialised in this process"""

    def __init__(self, reads: int = 0, size: int = 0) -> None:
        self.reads = reads
        self.content = np.zeros(size)

    def __reduce__(self) -> Any:
        Parcel.packed += 1
        return _unpack_parcel, (self.reads, self.content)


def _unpack_parcel(reads: int, content: Any) -> Parcel:
    parcel = Parcel(reads + 1)
    parcel.content = content
    return parcel


class Sender:
    """Gives parcels."""

    def next(self) -> Parcel:
        """A large one, never read."""
        return Parcel(0, 50_000)


class Recipient:
    """Says how often the parcels it was told had been read, itself included."""

    def __init__(self) -> None:
        self.reads: list[int] = []

    def tell(self, parcel: Parcel) -> None:
        """Take a parcel."""
        self.reads.append(parcel.reads)

    def next(self) -> list[int]:
        """What arrived so far."""
        if not self.reads:
            raise NotReady
        return list(self.reads)


class RunsAFlow:
    """Runs a flow of its own, on `sim`, and gives its items."""

    def __init__(self, flow: Flow[Any]) -> None:
        self.run = flow.run("sim")

    def next(self) -> Any:
        """The next item of the inner flow."""
        for item in self.run:
            return item
        raise EndOfStream

    def close(self) -> None:
        """End the inner run with the actor."""
        self.run.stop()


# -- operators -------------------------------------------------------------------------------------


class Answer(Operator[Any, Any]):
    """Tells the sources of each item (or a whole group) its number; passes the item on."""

    def __init__(self, group: Actors | None = None) -> None:
        self.group = group
        self.number = 0

    def __call__(self, item: Any, ctx: Context) -> Any:
        self.number += 1
        target = ctx.sources if self.group is None else self.group
        ctx.send(target, "tell", self.number, version=self.number)
        return item


class Forward(Operator[Any, Any]):
    """Sends each item on to a group, unread."""

    takes_ref = True

    def __init__(self, group: Actors) -> None:
        self.group = group

    def __call__(self, item: Ref, ctx: Context) -> Ref:
        ctx.send(self.group, "tell", item)
        return item


class Store(Operator[Any, Any]):
    """Adds each item to a replay actor."""

    def __init__(self, group: Actors) -> None:
        self.group = group

    def __call__(self, item: Any, ctx: Context) -> Any:
        ctx.send(self.group, "add", item)
        ctx.mark("stored")
        return item


class Total(Operator[int, int]):
    """The sum so far."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, item: int) -> int:
        self.total += item
        return self.total


class FailsAfter:
    """Works so often, then raises for ever."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self, item: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise LookupError("the learner lost its way")
        return item
