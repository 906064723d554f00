"""A listener on a thread of its own: whoever is slow, or stuck, holds up nobody but itself."""

from __future__ import annotations

import queue
import threading
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rillflow.runs.listeners import Listener, Row

if TYPE_CHECKING:
    from rillflow.flows.flow import Flow
    from rillflow.scheduler.run import Run

_MANY = 1000
"""rows that may wait to be told"""
_PATIENCE = 5.0
"""seconds at the end for what still waits"""


class Aside(Listener):
    """Tells another listener of a run, in order, on a thread; what it cannot take in is dropped.

    A service on the network may not answer, a pipe may be full: training goes on, with a count of
    the rows that were dropped. What the listener raises ends it, as it would elsewhere.

    Args:
        listener: to be told.
        most: rows that may wait for it.
    """

    def __init__(self, listener: Listener, most: int = _MANY) -> None:
        self.listener = listener
        self.dropped = 0
        self._waiting: queue.Queue[tuple[str, tuple[Any, ...]]] = queue.Queue(most)
        self._thread = threading.Thread(target=self._tell, name="aside", daemon=True)
        self._error: Exception | None = None
        self._named = f"{type(listener).__name__}"

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """Begin to tell."""
        self._thread.start()
        self._put("on_start", run, flow)

    def on_row(self, row: Row) -> None:
        """Put it in line, if there is room."""
        if self._error is not None:
            raise self._error
        self._put("on_row", row)

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        """Wait a moment for what is left, and tell what was dropped."""
        with suppress(queue.Full):
            if self._thread.is_alive():
                self._waiting.put(("on_end", (state, error)), timeout=_PATIENCE)
                self._thread.join(_PATIENCE)
        if self._error is not None:
            raise self._error
        left = self._waiting.qsize()
        if self._thread.is_alive() or self.dropped:
            stuck = " and does not answer" if self._thread.is_alive() else ""
            warnings.warn(
                f"{self._named} was too slow{stuck}: {self.dropped + left:,} rows did not reach it",
                stacklevel=2,
            )

    def _put(self, event: str, *arguments: Any) -> None:
        try:
            self._waiting.put_nowait((event, arguments))
        except queue.Full:
            self.dropped += 1

    def _tell(self) -> None:
        event = ""
        while event != "on_end":
            event, arguments = self._waiting.get()
            try:
                getattr(self.listener, event)(*arguments)
            except Exception as failure:
                self._error = failure
                return
