"""Actors and operators of the edge tests. Module level, so that they can be shipped by name."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rillflow as rf

PATIENCE = 15.0
"""seconds that a busy machine may take for what an idle one does at once"""


# -- what a test waits for and reads ---------------------------------------------------------------


class Bell:
    """A pipe with a name: an actor rings it, and a test waits for that without looking twice."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self.heard = 0

    def rung(self, times: int = 1, seconds: float = PATIENCE) -> bool:
        """Whether the bell is rung so often, counted from the beginning, before time is up."""
        deadline = time.monotonic() + seconds
        while self.heard < times:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                return False
            self.heard += len(os.read(self.fd, 65536))
        return True

    def close(self) -> None:
        os.close(self.fd)


def ring(path: str | None) -> None:
    """Ring the bell at this path, if there is one."""
    if path is not None:
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, b"!")
        os.close(fd)


def messages(run: rf.Run[Any], group: str = "sink") -> Any:
    """The line of the ledger about the messages to one group."""
    (line,) = [line for line in run.ledger().messages if line.group == group]
    return line


def lost(line: Any) -> dict[str, int]:
    """Messages that were lost, by reason."""
    return {reason: count for reason, count in line.lost.items() if count}


def pull_until(
    run: rf.Run[Any], enough: Callable[[], bool], catch: type[Exception] | tuple[Any, ...] = ()
) -> list[Exception]:
    """Pull until enough has happened; what was raised meanwhile."""
    errors: list[Exception] = []
    deadline = time.monotonic() + PATIENCE
    run.start()
    while not enough():
        assert time.monotonic() < deadline, f"not enough in {PATIENCE} s; raised: {errors}"
        try:
            next(run)
        except catch as error:
            errors.append(error)
    return errors


def descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


# -- actors ----------------------------------------------------------------------------------------


class Sink:
    """Takes numbers, slowly if asked; writes each to a file, or rings a bell, if it has one."""

    def __init__(
        self, info: rf.ActorInfo, pause: float = 0.0, path: str | None = None,
        bell: str | None = None,
    ) -> None:  # fmt: skip
        self.info = info
        self.pause = pause
        self.path = path
        self.bell = bell
        self.told: list[int] = []

    def add(self, number: int, *_: Any) -> None:
        if self.pause:
            time.sleep(self.pause)
        self.told.append(number)
        if self.path is not None:
            with open(self.path, "a") as file:
                file.write(f"{number}\n")
        ring(self.bell)

    def fail(self, *_: Any) -> None:
        raise LookupError("this message cannot be handled")

    def die(self, *_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def numbers(self) -> list[int]:
        return list(self.told)

    def count(self) -> tuple[str, int]:
        """An item: how many numbers it was told."""
        return self.info.name, len(self.told)


def written(path: Path) -> list[int]:
    """The numbers that sinks have written to a file."""
    return [int(line) for line in path.read_text().split()] if path.exists() else []


class Weighted:
    """Gives its name and the weights it has; they are all it knows, and it has no `get_state`."""

    def __init__(self, info: rf.ActorInfo, pause: float = 0.0) -> None:
        self.info = info
        self.pause = pause
        self.weights = 0
        self.told: list[Any] = []
        self.epsilon = 0

    def next(self) -> tuple[str, int]:
        if self.pause:
            time.sleep(self.pause)
        return self.info.name, self.weights

    def history(self) -> tuple[str, int, list[Any]]:
        """Its name, its incarnation, and everything that this incarnation was told."""
        if self.pause:
            time.sleep(self.pause)
        return self.info.name, self.info.incarnation, list(self.told)

    def set_weights(self, weights: int) -> None:
        self.weights = weights
        self.told.append(weights)

    def set_epsilon(self, epsilon: int) -> None:
        self.epsilon = epsilon
        self.told.append(f"epsilon {epsilon}")

    def die(self, *_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Numbered:
    """Gives (name, 0), (name, 1), ... and can be saved; `items` of them, or for ever."""

    def __init__(self, info: rf.ActorInfo, items: int = 10**9) -> None:
        self.info = info
        self.items = items
        self.n = 0

    def next(self) -> tuple[str, int]:
        if self.n >= self.items:
            raise rf.EndOfStream
        self.n += 1
        return self.info.name, self.n - 1

    def born(self) -> tuple[str, int, int]:
        """As `next`, with its incarnation."""
        name, n = self.next()
        return name, self.info.incarnation, n

    def several(self) -> list[tuple[str, int, int]]:
        """One to three pieces of one item."""
        name, n = self.next()
        return [(name, n, piece) for piece in range(1 + n % 3)]

    def get_state(self) -> int:
        return self.n

    def set_state(self, n: int) -> None:
        self.n = n


class Stuck:
    """Rings when it is asked, and never answers."""

    def __init__(self, bell: str) -> None:
        self.bell = bell

    def next(self) -> int:
        ring(self.bell)
        time.sleep(1000)
        return 0


class Slowly:
    """Takes long to be made, and gives its incarnation and its number quickly."""

    def __init__(self, info: rf.ActorInfo, seconds: float) -> None:
        self.info = info
        self.n = 0
        time.sleep(seconds)

    def next(self) -> tuple[int, int]:
        self.n += 1
        return self.info.incarnation, self.n


# -- exceptions that are hard to report ------------------------------------------------------------


class Unspeakable(Exception):  # noqa: N818 - what it is
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class Refusing(Exception):  # noqa: N818 - what it is
    """Cannot be made from a text."""

    def __new__(cls, code: int) -> Refusing:
        if not isinstance(code, int):
            raise ValueError("a code is a number")
        return super().__new__(cls, code)


ELSEWHERE = "a_module_that_only_an_actor_has"


def unimportable() -> Exception:
    """An exception of a class whose module exists only in the process that calls this."""
    module = types.ModuleType(ELSEWHERE)
    exec("class Foreign(Exception): pass", vars(module))
    sys.modules[ELSEWHERE] = module
    return module.Foreign("made elsewhere")  # type: ignore[no-any-return]


TROUBLES: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "CancelledError": lambda: asyncio.CancelledError("cancelled"),
    "GeneratorExit": lambda: GeneratorExit("closed"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("pressed"),
    "Unspeakable": lambda: Unspeakable("x"),
    "Refusing": lambda: Refusing(7),
    "Foreign": unimportable,
}
"""by the name of the class"""

ANYWHERE = [name for name in TROUBLES if name != "KeyboardInterrupt"]
"""those that mean the same in the driver's own thread as elsewhere"""


class Troubled:
    """Gives 0, 1, 2, ... but in place of 1 it raises; so do its handler and its constructor."""

    def __init__(self, trouble: str, when: int = 1) -> None:
        self.trouble = trouble
        self.when = when
        self.n = -1
        if when == -1:
            raise TROUBLES[trouble]()

    def next(self) -> int:
        self.n += 1
        if self.n == self.when:
            raise TROUBLES[self.trouble]()
        return self.n

    def fail(self, *_: Any) -> int:
        raise TROUBLES[self.trouble]()


class Trouble:
    """A callable that raises in place of item 1."""

    def __init__(self, trouble: str) -> None:
        self.trouble = trouble

    def __call__(self, item: int) -> int:
        if item == 1:
            raise TROUBLES[self.trouble]()
        return item


class Unloadable:
    """A callable that can be shipped and not be unpacked."""

    def __call__(self, item: Any) -> Any:
        return item

    def __reduce__(self) -> Any:
        return _unloadable, ()


def _unloadable() -> Any:
    raise LookupError("no such level")


# -- values ----------------------------------------------------------------------------------------


class Named(np.ndarray[Any, Any]):
    """An array of a class of its own."""


def arrays() -> dict[str, Any]:
    """One array of each kind."""
    return {
        "numbers": np.arange(3.0),
        "many numbers": np.zeros(100_000),
        "columns first": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "words": np.array(["ab", "c"]),
        "objects": np.array([None, "x"], object),
        "times": np.array(["2026-01-02", "2026-01-03"], "M8[D]"),
        "spans": np.array([1, 2], "m8[s]"),
        "masked": np.ma.masked_array([1, 2, 3], mask=[False, True, False]),
        "structured": np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]),
        "records": np.rec.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        "its own class": np.arange(3).view(Named),
    }


def writable(value: Any) -> list[str]:
    """The names of the arrays of a mapping that can be written to, their masks included."""
    found = [name for name, array in value.items() if array.flags.writeable]
    return found + [
        f"the mask of {name}"
        for name, array in value.items()
        if isinstance(array, np.ma.MaskedArray) and np.ma.getmaskarray(array).flags.writeable
    ]


class Arrays:
    """Gives arrays of all kinds, and says which of those that it was told it could write to."""

    def __init__(self) -> None:
        self.found: list[str] | None = None

    def next(self) -> tuple[Any, list[str] | None]:
        return arrays(), self.found

    def take(self, told: Any) -> None:
        self.found = writable(told)


class Reuses:
    """Fills the same array, list and mapping again for each item, and keeps them."""

    def __init__(self) -> None:
        self.n = 0
        self.array = np.zeros(2)
        self.log: list[int] = []
        self.mapping: dict[str, Any] = {"array": self.array}

    def next(self) -> Any:
        self.n += 1
        self.array[:] = self.n
        return self.array

    def nested(self) -> Any:
        self.next()
        self.mapping["n"] = self.n
        return self.mapping

    def logged(self) -> Any:
        self.n += 1
        self.log.append(self.n)
        return self.log

    def __call__(self, _: Any) -> Any:
        return self.next()


class Unreadable:
    """A value that can be written and not read."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return _unreadable, (self.number,)


def _unreadable(number: int) -> Any:
    if number == 1:
        raise ValueError(f"nobody can read item {number}")
    return Unreadable(number)


# -- operators -------------------------------------------------------------------------------------


class SendEach(rf.Operator[Any, Any]):
    """Sends each item's number in the sequence to a group, with a load, and passes the item on."""

    def __init__(
        self, group: rf.Actors, *, times: int = 1, load: int = 0, versioned: bool = False,
        method: str = "add",
    ) -> None:  # fmt: skip
        self.group = group
        self.times = times
        self.load = load
        self.versioned = versioned
        self.method = method
        self.sent = 0

    def __call__(self, item: Any, ctx: rf.Context) -> Any:
        for _ in range(self.times):
            load = (np.zeros(self.load, np.uint8),) if self.load else ()
            version = self.sent + 1 if self.versioned else None
            ctx.send(self.group, self.method, self.sent, *load, version=version)
            self.sent += 1
        return item


class Publish(rf.Operator[Any, Any]):
    """Sends a new version of the weights for each item: to a group, or to the item's sources."""

    def __init__(self, group: rf.Actors | None = None, key: str | None = None) -> None:
        self.group = group
        self.key = key
        self.version = 0

    def __call__(self, item: Any, ctx: rf.Context) -> Any:
        self.version += 1
        to = ctx.sources if self.group is None else self.group
        ctx.send(to, "set_weights", self.version, version=self.version, key=self.key)
        return item


class Tally:
    """Counts in its methods, which serve as operators, and can be saved."""

    def __init__(self) -> None:
        self.n = 0
        self.kept: list[Any] = []

    def number(self, item: Any) -> tuple[int, Any]:
        self.n += 1
        return self.n, item

    def odd(self, _: Any) -> bool:
        self.n += 1
        return self.n % 2 == 1

    def pairs(self, item: Any) -> list[Any]:
        self.kept.append(item)
        if len(self.kept) < 2:
            return []
        pair, self.kept = tuple(self.kept), []
        return [pair]

    def get_state(self) -> dict[str, Any]:
        return {"n": self.n, "kept": list(self.kept)}

    def set_state(self, state: dict[str, Any]) -> None:
        self.n, self.kept = state["n"], list(state["kept"])


def numbers_of_each(items: Iterator[Any] | list[Any]) -> dict[str, list[int]]:
    """The numbers of (name, ..., number) items, by name."""
    found: dict[str, list[int]] = {}
    for name, *_, number in items:
        found.setdefault(name, []).append(number)
    return found
