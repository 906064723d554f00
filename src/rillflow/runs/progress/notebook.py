"""A training run in a notebook: a display below the cell that follows the run."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rillflow.errors import RillflowError
from rillflow.runs.listeners import Listener, Row
from rillflow.runs.progress.html import run_html
from rillflow.runs.progress.time_left import Forecast

if TYPE_CHECKING:
    from rillflow.flows.flow import Flow
    from rillflow.runs.training_run import TrainingRun
    from rillflow.scheduler.run import Run

_EVERY = 0.5
"""seconds between two pictures"""


class NotebookDisplay(Listener):
    """Draws the run about twice a second while it goes on; its last picture stays."""

    def __init__(self, run: TrainingRun) -> None:
        self.run = run
        self.stopping = False
        """the user has asked for the end"""
        self.forecast = Forecast(run.until)
        self._state = "starting"
        self._drawn = 0.0
        self._handle: Any = None

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """Begin to draw."""
        from IPython import display, get_ipython

        self.run.drawn_in = getattr(get_ipython(), "execution_count", None)
        self._state = "running"
        show: Any = display.display
        self._handle = show(self, display_id=True)

    def on_row(self, row: Row) -> None:
        """Draw it, if the last picture is old enough."""
        self.forecast.see(row)
        if time.monotonic() - self._drawn >= _EVERY:
            self._draw()

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        """The last picture."""
        self._state = state
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._handle is not None:
            self._handle.update(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": repr(self.run)}

    def html(self) -> str:
        """What is shown now."""
        run, over = self.run, self._state not in ("starting", "running")
        left = None if over else self.forecast.left()
        stats = None
        with suppress(RillflowError, RuntimeError):
            stats = run.stats() if run.history else None
        notes = [f"view it at {run.url}"] if run.url and not over else []
        if self.stopping and not over:
            notes.append("stopping after this update; interrupt again to stop now")
        return run_html(
            run.title,
            self._state,
            run.history,
            done=self._done(left),
            left=left,
            rate=self.forecast.rate,
            goal=run.goal,
            notes=notes,
            stats=stats,
        )

    def _done(self, left: tuple[float, str] | None) -> float:
        """How much of the way has been gone, by time where that can be said."""
        if self._state == "finished":
            return 1.0
        history = self.run.history
        if left is None or not history:
            return 0.0
        gone = history[-1]["seconds"]
        return gone / max(1e-9, gone + left[0])
