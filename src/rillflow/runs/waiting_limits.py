"""How long a run waits for its actors: not for ever, whoever hangs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rillflow.engines.contract import Event
from rillflow.errors import RunError
from rillflow.runs.interrupts import Interrupts
from rillflow.scheduler.driver import TooLate
from rillflow.scheduler.run import Run

GRACE = 5.0
"""seconds for which a result is waited for when the time is up, or the user wants to stop"""
TELL = 20.0
"""seconds of one wait after which the user is told for whom"""
_LOOK = 0.5
"""seconds between two looks at what the user wants: a signal does not end a wait by itself"""


class Overdue(RunError):  # noqa: N818 - what it is
    """Nobody answered in time."""


class Waits:
    """While its `with` block lasts, the waits of a run end when its time is up.

    They end with `Overdue`, before anything that came is taken: the run is at a step boundary, and
    can be saved. On `sim` nobody is waited for, and nothing is changed.

    Args:
        run: not begun.
        interrupts: the user's wish to stop ends a wait, too.
    """

    def __init__(self, run: Run[Any], interrupts: Interrupts | None = None) -> None:
        self.run = run
        self.deadline: float | None = None
        """on the clock of `time.monotonic`"""
        self._interrupts = interrupts
        self._silence: float | None = None
        self._told = False
        """the user knows of this wait"""
        self._wait: Callable[[float | None], list[Event]] = run.engine.wait

    def __enter__(self) -> Waits:
        if self.run.engine.name != "sim":
            vars(self.run.engine)["wait"] = self._bounded
        return self

    def __exit__(self, *_: object) -> None:
        vars(self.run.engine).pop("wait", None)

    @contextmanager
    def silence(self, seconds: float) -> Iterator[None]:
        """Inside, a wait ends when nobody has said anything for so long, and only then."""
        self._silence = seconds
        try:
            yield
        finally:
            self._silence = None

    def hung(self) -> str:
        """Who was asked and has not answered, for a message."""
        names = [name for name, line in self.run.workers().items() if line["in_flight"]]
        return ", ".join(names) or "an actor"

    def _bounded(self, timeout: float | None) -> list[Event]:
        if timeout == 0.0:
            return self._wait(timeout)
        began = now = time.monotonic()
        left, self._told = timeout, False
        while True:
            piece = left
            if piece is None or piece > _LOOK:
                piece = _LOOK
            ends = self._ends(began)
            if ends is not None:
                if now >= ends:
                    raise Overdue(f"{self.hung()} did not answer")
                piece = ends - now if piece is None else min(piece, ends - now)
            events = self._wait(piece)
            if events or piece is None or piece == left:
                return events
            now, before = time.monotonic(), now
            if not self._told and now - began >= TELL:
                self._told = True
                warnings.warn(f"waiting for {self.hung()} for {now - began:.0f} s", stacklevel=2)
            if now - before < 0.9 * piece:  # something happened, though nothing to tell of
                return events
            left = None if timeout is None else max(0.0, began + timeout - now)

    def _ends(self, began: float) -> float | None:
        """When this wait ends at the latest."""
        if self._silence is not None:
            return began + self._silence
        moments = [] if self.deadline is None else [self.deadline + GRACE]
        if self._interrupts is not None and self._interrupts.since is not None:
            moments.append(self._interrupts.since + GRACE)
        return min(moments) if moments else None


def state_within(run: Run[Any], waits: Waits, seconds: float) -> dict[str, Any]:
    """The state of a run, without those who do not give theirs in time, if others can do theirs.

    Args:
        run: between two results.
        waits: of the run; while its state is taken, only `seconds` end a wait.
        seconds: to come to rest, and then again to tell the state.

    Raises:
        Overdue: the run cannot be saved without those who hang.
    """
    try:
        with waits.silence(3 * seconds + GRACE):
            return run.get_state(timeout=seconds, partial=True)
    except RunError as error:
        if isinstance(error, TooLate):
            raise Overdue(str(error)) from error
        raise
