"""TensorBoard: every figure as a scalar over environment steps, and the dataflow as its graph."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.errors import BuildError
from rillflow.results.learning_curves import is_evaluation
from rillflow.runs.listeners import Listener, Row
from rillflow.runs.tensorboard_graph import graph_def

if TYPE_CHECKING:
    from rillflow.flows.flow import Flow
    from rillflow.scheduler.run import Run

_NO_FIGURES = ("steps",)
"""what is the axis is not a curve too"""


class TensorBoard(Listener):
    """Writes an event file that `tensorboard --logdir` shows.

    Args:
        directory: of the event file.
        every: seconds between two rows that are written at least; the last is always written.
    """

    def __init__(self, directory: str | Path, every: float = 0.2) -> None:
        require_tensorboard()
        self.directory = Path(directory)
        self.every = every
        self._writer: Any = None
        self._next = 0.0
        self._kept: Row | None = None

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """The graph comes first."""
        from tensorboard.compat.proto import event_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(self.directory))
        graph = graph_def(flow.to_json()).SerializeToString()
        self._writer.add_event(event_pb2.Event(wall_time=time.time(), graph_def=graph))
        self._writer.flush()

    def on_row(self, row: Row) -> None:
        """As often as a person can look."""
        now = time.monotonic()
        self._kept = row
        if now >= self._next or "eval_return" in row:
            self._next = now + self.every
            self._write(row)

    def _write(self, row: Row) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2

        self._kept = None
        for step, own in by_step(row):
            values = [
                summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in own.items()
            ]
            if self._writer is not None and values:
                summary = summary_pb2.Summary(value=values)
                event = event_pb2.Event(wall_time=time.time(), step=step, summary=summary)
                self._writer.add_event(event)

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        """What was held back, then the end."""
        if self._kept is not None:
            self._write(self._kept)
        if self._writer is not None:
            self._writer.close()


def figures(row: Row) -> Mapping[str, float]:
    """What there is to draw: finite numbers, and the speed.

    >>> figures({"steps": 100, "seconds": 2.0, "return": float("nan"), "kl": 0.5})
    {'seconds': 2.0, 'kl': 0.5, 'steps_per_second': 50.0}
    """
    found = {
        name: float(value)
        for name, value in row.items()
        if name not in _NO_FIGURES and math.isfinite(value)
    }
    if row.get("seconds", 0) > 0:
        found["steps_per_second"] = row["steps"] / row["seconds"]
    return found


def by_step(row: Row) -> list[tuple[int, Mapping[str, float]]]:
    """The figures of a row, at its step, and those of an evaluation, at that of its weights.

    >>> by_step({"steps": 500, "return": 9.0, "eval_steps": 400.0, "eval_return": 20.0})
    [(500, {'return': 9.0}), (400, {'eval_return': 20.0})]
    """
    found = figures(row)
    evaluated = {name: value for name, value in found.items() if is_evaluation(name)}
    rest = {name: value for name, value in found.items() if not is_evaluation(name)}
    if not evaluated:
        return [(int(row["steps"]), rest)]
    del evaluated["eval_steps"]
    return [(int(row["steps"]), rest), (int(row["eval_steps"]), evaluated)]


def require_tensorboard() -> None:
    """Say what to install before anything has started."""
    from importlib.util import find_spec

    if find_spec("tensorboard") is None:
        raise BuildError("TensorBoard is not installed: pip install 'rillflow[tensorboard]'")
