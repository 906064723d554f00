"""Saves a training run now and then, and lets it go on from there.

What is saved is a cut between two results: the state of every operator, actor, learner, replay and
random generator, what was counted, and how many rows of metrics belong to it. Rows that were
written after the cut are dropped when the run goes on: they will be made again.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from typing import TYPE_CHECKING, Any

from rillflow.checkpoint import CheckpointNotSaved, CheckpointStore, UnsavableState
from rillflow.errors import RunError
from rillflow.runs.directory import RunDirectory

if TYPE_CHECKING:
    from rillflow.checkpoint import Checkpoint
    from rillflow.rl.metrics import Progress
    from rillflow.scheduler.run import Run

GIVE_UP_AFTER = 5
"""saves in a row that the disk did not take, before the run fails"""


class Keeper:
    """The checkpoints of one run.

    Args:
        directory: of the run; they are written to its `checkpoints/`.
        seconds: between two saves; None: not by time.
        steps: of the environments between two saves; None: not by steps. On `sim` a run that is
            saved by steps alone can be repeated exactly, with its saves.
        keep: how many checkpoints to keep.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        seconds: float | None = 60.0,
        steps: int | None = None,
        keep: int = 3,
    ) -> None:
        self.directory = directory
        self.store = CheckpointStore(directory.checkpoints, keep=keep)
        self.seconds = seconds
        self.steps = steps
        self.rows = 0
        """of metrics.jsonl that belong to the run so far"""
        self._off = False
        self._saved_at = time.monotonic()
        self._saved_steps = 0

    def newest(self) -> Checkpoint:
        """What the run goes on from; a run that has saved nothing cannot."""
        found = self.store.newest()
        if found is None:
            raise RunError(
                f"{self.directory} has no checkpoint yet: it ended before its first save. Begin "
                "anew with the same command."
            )
        return found

    def restore(self, checkpoint: Checkpoint, run: Run[Any], progress: Progress) -> None:
        """Bring a run that has not begun, and what is counted, to where the checkpoint was made."""
        state = checkpoint.state
        run.set_state(state["run"])
        progress.set_state(state["progress"])
        self.rows = state["rows"]
        self._saved_steps = checkpoint.step
        _keep_lines(self.directory, self.rows)

    def after_row(self, run: Run[Any], progress: Progress) -> None:
        """Another result; save if it is time."""
        self.rows += 1
        by_time = self.seconds is not None and time.monotonic() - self._saved_at >= self.seconds
        by_steps = self.steps is not None and progress.steps - self._saved_steps >= self.steps
        if by_time or by_steps:
            self.save(run, progress)

    def save(self, run: Run[Any], progress: Progress) -> None:
        """Save now; a disk that is full stops nothing, until it has been full for long."""
        if self._off:
            return
        state = {"run": run.get_state(), "progress": progress.get_state(), "rows": self.rows}
        about = self.directory.about
        facts = {name: about.get(name) for name in ("algorithm", "env", "seed", "engine")}
        try:
            self.store.save(step=progress.steps, state=state, facts=facts)
        except UnsavableState as error:
            self._off = True
            warnings.warn(f"no checkpoints of this run: {error}", stacklevel=2)
        except CheckpointNotSaved as error:
            if self.store.failures >= GIVE_UP_AFTER:
                raise
            warnings.warn(f"{error}; training goes on, and the next save is tried", stacklevel=2)
        self._saved_at, self._saved_steps = time.monotonic(), progress.steps

    def close(self) -> None:
        """Let another process save here."""
        self.store.close()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def rows_of(directory: RunDirectory) -> list[dict[str, float]]:
    """The rows that a run has written, as they were in its history."""
    if not directory.metrics.exists():
        return []
    nan = float("nan")
    lines = directory.metrics.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    return [{name: nan if value is None else value for name, value in r.items()} for r in rows]


def _keep_lines(directory: RunDirectory, count: int) -> None:
    """Drop what was written after the checkpoint; the file is replaced whole or not at all."""
    if not directory.metrics.exists():
        return
    lines = directory.metrics.read_text(encoding="utf-8").splitlines(keepends=True)
    if len(lines) < count:
        raise RunError(
            f"{directory.metrics} has {len(lines)} rows, but the checkpoint was made after "
            f"{count}: it was changed by somebody else. Restore it, or begin anew."
        )
    part = directory.metrics.with_suffix(".part")
    part.write_text("".join(lines[:count]), encoding="utf-8")
    os.replace(part, directory.metrics)
