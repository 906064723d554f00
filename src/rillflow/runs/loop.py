"""The loop of a training run: a row for each result, until somebody or something ends it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rillflow.errors import RunError
from rillflow.learning.results import TrainStats
from rillflow.rl.metrics import Progress
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.follow_up import FollowUp
from rillflow.runs.interrupts import Interrupts
from rillflow.runs.limits import in_words, reached
from rillflow.runs.listeners import Row
from rillflow.runs.waiting_limits import Overdue, Waits

if TYPE_CHECKING:
    from rillflow.scheduler.run import Run


_BEGINNING = 30.0
"""seconds by which the first result may come too late: processes have to start"""


@dataclass(frozen=True)
class Ending:
    """How a loop ended."""

    state: str
    """finished: a limit was reached; stopped: somebody wanted it"""
    hurry: bool = False
    """somebody hangs, or the user waits: what is left to do should not take long"""
    why: str = ""
    """in words, where that can be said"""
    row: dict[str, float] | None = None
    """the last"""


class Loop:
    """Pulls results, and tells of each as a row.

    Args:
        run: entered.
        progress: listens to the run.
        waits: of the run.
        heard: called with each row; what it raises ends the run.
        checkpointer: saves the run now and then.
        interrupts: of the user.
        stop: asked after each row.
        follow: evaluates, keeps the best policy, calls callbacks.
    """

    def __init__(
        self,
        run: Run[Any],
        progress: Progress,
        waits: Waits,
        heard: Callable[[dict[str, float]], None],
        checkpointer: Checkpointer | None,
        interrupts: Interrupts | None,
        stop: Callable[[Row], bool] | None,
        follow: FollowUp,
    ) -> None:
        self._run, self._progress, self._waits, self._heard = run, progress, waits, heard
        self._checkpointer, self._interrupts, self._stop = checkpointer, interrupts, stop
        self._follow = follow
        self._last: dict[str, float] | None = None

    def run(self, until: Mapping[str, float]) -> Ending:
        """Until a limit is reached, `stop` or the user says so, or the stream of results ends."""
        deadline = self._progress.begin + until["seconds"] if "seconds" in until else None
        self._waits.deadline = None if deadline is None else deadline + _BEGINNING
        try:
            for result in self._run:
                self._waits.deadline = deadline
                row = self._last = self._follow.completed(_row(self._progress, result))
                ending = self._after(row, until)
                if ending is not None:
                    return ending
        except Overdue as late:
            return self._overdue(late)
        return Ending("finished", why="there are no more results", row=self._last)

    def _after(self, row: dict[str, float], until: Mapping[str, float]) -> Ending | None:
        """Everybody hears of a row; how the run ends with it, if it does."""
        if self._interrupts is not None:
            self._interrupts.ready = True  # there is something to save
        self._heard(row)
        if self._checkpointer is not None:
            self._checkpointer.count_row()
        said = self._follow.tell(row)
        if self._checkpointer is not None:
            self._checkpointer.after_row()
            said = self._follow.saved(self._checkpointer.take_saved()) or said
        limits = reached(until, row)
        if limits:
            return Ending("finished", why=in_words(limits), row=row)
        if said is not None:
            return Ending("finished", why=said, row=row)
        if self._wished():
            return Ending("stopped", hurry=True, row=row)
        if self._stop is not None and self._stop(row):
            return Ending("stopped", row=row)
        return None

    def _overdue(self, late: Overdue) -> Ending:
        """No result comes, and the time is up: a last row says how far it came."""
        self._heard(self._progress.row())
        why = "you want to stop" if self._wished() else "the limit of seconds is reached"
        warnings.warn(f"{why}, and {late}: the run ends without its answer", stacklevel=2)
        return Ending("stopped" if self._wished() else "finished", hurry=True)

    def _wished(self) -> bool:
        return self._interrupts is not None and self._interrupts.wished


def _row(progress: Progress, result: object) -> dict[str, float]:
    if not isinstance(result, TrainStats):
        raise RunError(
            "a plan's results are TrainStats, such as TrainOneStep gives, found "
            f"{type(result).__name__}."
        )
    return progress.row(result)
