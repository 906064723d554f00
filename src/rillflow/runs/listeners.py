"""Who listens to a training run: files, TensorBoard, a terminal, anything of your own.

A listener has three methods, and `Listener` has them all, doing nothing:

on_start(run, flow)       before the first item; `run.stats()` may be asked at any time from here
on_row(row)               each result of training, as in `Trained.history`
on_end(state, error)      finished (a limit was reached), stopped (by the user) or failed

They watch, and cannot spoil what they watch: one that raises is named in a warning and is not
called again, while training goes on.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.files import write_json
from rillflow.runs.busy import note_machine
from rillflow.runs.machine_use import MachineUse
from rillflow.runs.metrics_file import MetricsFile
from rillflow.runs.status import snapshot

if TYPE_CHECKING:
    from rillflow.flows.flow import Flow
    from rillflow.scheduler.run import Run

Row = Mapping[str, float]


class Listener:
    """Hears of everything, does nothing; override what you need."""

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """The run is about to begin."""

    def on_row(self, row: Row) -> None:
        """A result of training."""

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        """The run is over, and its actors are gone."""


class Listeners(Listener):
    """Several as one. A listener that fails is dropped, and said to be."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self.listeners = list(listeners)

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """To each."""
        self._tell("on_start", run, flow)

    def on_row(self, row: Row) -> None:
        """To each."""
        self._tell("on_row", row)

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        """To each."""
        self._tell("on_end", state, error)

    def _tell(self, event: str, *arguments: Any) -> None:
        for listener in list(self.listeners):
            try:
                getattr(listener, event)(*arguments)
            except Exception as failure:
                self.listeners.remove(listener)
                warnings.warn(
                    f"{type(listener).__name__} failed and hears no more of this run "
                    f"({type(failure).__name__}: {failure}); training goes on",
                    stacklevel=2,
                )


class JsonlLogger(Listener):
    """Appends rows to a file as lines of JSON, at once; what is not a number is null.

    A disk that takes nothing for a while costs rows at most: see `MetricsFile`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: MetricsFile | None = None

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """Open the file; a run that goes on appends to what it wrote before."""
        self._file = MetricsFile(self.path)

    def on_row(self, row: Row) -> None:
        """One line, readable as soon as it is written."""
        if self._file is not None:
            self._file.add(row)

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class StatusWriter(Listener):
    """Keeps status.json about a second old, from a thread: also while an update takes minutes.

    The same thread writes `machine.jsonl` beside it: what the run takes of its machine.
    """

    def __init__(self, path: str | Path, every: float = 1.0) -> None:
        self.path = Path(path)
        self.every = every
        self._over = threading.Event()
        self._run: Run[Any] | None = None
        self._thread: threading.Thread | None = None
        self._use: MachineUse | None = None

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """Write the first, and go on."""
        self._run = run
        self._use = MachineUse(self.path.with_name("machine.jsonl"))
        with suppress(OSError):  # a full disk: the thread tries again
            write_json(self.path, snapshot(run))
        self._thread = threading.Thread(target=self._keep, name="status", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        assert self._run is not None, "started by on_start"
        while not self._over.wait(self.every):
            if self._use is not None and self._use.due():
                note_machine(self._run, self._use.write())
            try:
                write_json(self.path, snapshot(self._run))
            except (OSError, RuntimeError):  # a full disk, or the run's own thread: try again
                continue

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        """Write the last."""
        self._over.set()
        if self._thread is None or self._run is None:
            return
        self._thread.join()
        if self._use is not None and not self._use.written:
            self._use.write()  # of a run that was over before one was due
        write_json(self.path, snapshot(self._run, state=state, error=error))
