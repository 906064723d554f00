"""How long a run waits for its actors: not for ever, whoever hangs."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rillflow.engines.contract import Event
from rillflow.errors import RunError
from rillflow.runs.interrupts import Interrupts
from rillflow.scheduler.run import Run

GRACE = 5.0
"""seconds for which a result is waited for when the time is up, or the user wants to stop"""
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
        left = timeout
        while True:
            piece = left
            if self._interrupts is not None and (piece is None or piece > _LOOK):
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


def can_be_bounded(run: Run[Any]) -> bool:
    """Whether a run whose state was not given in time goes on."""
    return "timeout" in inspect.signature(run.get_state).parameters


def state_within(run: Run[Any], waits: Waits, seconds: float, *, last: bool) -> dict[str, Any]:
    """The state of a run, or `Overdue` if its actors do not give theirs in time.

    Args:
        run: between two results.
        waits: of the run.
        seconds: for which to wait.
        last: the run does not go on from here.
    """
    get_state: Any = run.get_state
    bounded = can_be_bounded(run)
    try:
        with waits.silence(seconds) if last else nullcontext():
            state: dict[str, Any] = get_state(timeout=seconds) if bounded else get_state()
    except RunError as error:
        if type(error) is RunError and (last or bounded):
            raise Overdue(str(error)) from error
        raise
    return state
