"""Playing beside training: the driver itself plays on `sim`, elsewhere a process.

A process of its own plays while training goes on, and may hang, fail or be killed without anybody
else noticing. On `sim` nothing happens beside anything else, so the driver plays, between two steps
of training: the same seed gives the same run, evaluations and films included.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rillflow.errors import EndOfStream, RunError
from rillflow.flows.sources import from_actors
from rillflow.graph.handles import Actors
from rillflow.results.play_episodes import Watch

if TYPE_CHECKING:
    from rillflow.scheduler.run import Run

_SLOWER, _AT_LEAST = 20.0, 600.0
"""times the slowest order so far, and seconds at least, before one is given up"""
_START = 300.0
"""seconds for the process to start"""


class Plays(Protocol):
    """What plays: an `Evaluator`, or a `Filmer`."""

    def play(self, order: Any, watch: Watch = int) -> Any:
        """Play what is ordered, such as weights; `watch` is called before each step."""


class PlayerActor:
    """A player in a process of its own."""

    def __init__(self, player: Plays) -> None:
        self.player = player

    def play(self, order: Any) -> Any:
        """As the player does."""
        return self.player.play(order)

    def is_ready(self) -> bool:
        """Whether the process is there: to start it is no part of what it plays."""
        return True

    def next(self) -> None:
        """There are no items: it is only called."""
        raise EndOfStream


class Players(ABC):
    """Plays one order after the other."""

    @abstractmethod
    def begin(self, order: Any) -> None:
        """Play this: weights, which nobody changes, and what else the player needs."""

    @abstractmethod
    def outcome(self, patience: float = 0.0) -> Any:
        """What came of it; None: nothing yet, also after so many seconds."""

    def close(self) -> None:  # noqa: B027 - one that has nothing need not
        """Give everything back, whatever is under way."""


class Here(Players):
    """The driver plays, at once.

    Args:
        player: who plays.
        watch: called before each step; what it raises ends the playing, as `outcome`.
    """

    def __init__(self, player: Plays, watch: Watch = int) -> None:
        self._player, self._watch = player, watch
        self._found: Any = None

    def begin(self, order: Any) -> None:
        """Play now."""
        try:
            with _same_random_numbers():
                self._found = self._player.play(order, self._watch)
        except Exception as error:
            self._found = error

    def outcome(self, patience: float = 0.0) -> Any:
        """What came of it: it is over."""
        found, self._found = self._found, None
        return found


class Beside(Players):
    """A process plays, and a thread waits for it; what fails or hangs is replaced the next time.

    Args:
        actors: the one who plays.
        limit: seconds for one order; 0: for ever; None: by what was measured.
    """

    def __init__(self, actors: Actors, limit: float | None = None) -> None:
        self._actors = actors
        self._limit = limit
        self._slowest = 0.0
        self._run: Run[Any] | None = None
        self._thread: threading.Thread | None = None
        self._found: Any = None

    def begin(self, order: Any) -> None:
        """Have the process play."""
        self._thread = threading.Thread(
            target=self._play, args=(order,), name=self._actors.name, daemon=True
        )
        self._thread.start()

    def outcome(self, patience: float = 0.0) -> Any:
        """What came of it, if the process has answered."""
        if self._thread is None:
            return None
        self._thread.join(patience)
        if self._thread.is_alive():
            return None
        found, self._found, self._thread = self._found, None, None
        return found

    @property
    def limit(self) -> float | None:
        """Seconds for the next order; None: there is no limit."""
        if self._limit is None:
            return max(_AT_LEAST, _SLOWER * self._slowest)
        return self._limit or None

    def _play(self, order: Any) -> None:
        """In the thread."""
        name = f"{self._actors.name}-0"
        try:
            if self._run is None:
                flow = from_actors(self._actors).gather_sync()
                self._run = flow.run("local", on_failure="raise")
                _within(_START, self._run, "is_ready", name=name)
            began = time.monotonic()
            self._found = _within(self.limit, self._run, "play", order, name=name)
            self._slowest = max(self._slowest, time.monotonic() - began)
        except Exception as error:
            self._found = error
            self._end_process()

    def _end_process(self) -> None:
        if self._run is not None:
            self._run.stop()
            self._run = None

    def close(self) -> None:
        """End the process, whatever it does."""
        run = self._run
        if run is not None:
            run.stop()
        if self._thread is not None:
            self._thread.join(5.0)
        self._end_process()


def players_for(
    player: Plays, engine: str, name: str, limit: float | None = None, watch: Watch = int
) -> Players:
    """Who has this player play next to a run on this engine.

    Args:
        player: an evaluator, or a filmer.
        engine: of the run.
        name: of the process.
        limit: seconds for one order; 0: for ever; None: by what was measured.
        watch: called before each step where the driver plays itself.
    """
    if engine == "sim" or not hasattr(os, "pidfd_open"):  # no processes of ours, but on Linux
        return Here(player, watch)
    return Beside(Actors.of(PlayerActor, 1, player, name=name), limit)


def _within(seconds: float | None, run: Run[Any], method: str, *arguments: Any, name: str) -> Any:
    """Ask the process; one that does not answer in time is ended."""
    late = threading.Event()

    def end() -> None:
        late.set()
        run.stop()

    timer = threading.Timer(threading.TIMEOUT_MAX if seconds is None else seconds, end)
    timer.daemon = True
    timer.start()
    try:
        return run.call(name, method, *arguments)
    except Exception:
        if late.is_set():
            raise RunError(f"no answer in {seconds:g} s") from None
        raise
    finally:
        timer.cancel()


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Environments that draw from generators everybody shares leave them as they were."""
    import numpy as np

    plain, numpys = random.getstate(), np.random.get_state()
    torch: Any = sys.modules.get("torch")
    torchs = None if torch is None else torch.random.get_rng_state()
    try:
        yield
    finally:
        random.setstate(plain)
        np.random.set_state(numpys)
        if torchs is not None:
            torch.random.set_rng_state(torchs)
