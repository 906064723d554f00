"""What shows a run that was started from Python: a notebook, the terminal, lines, or nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rillflow.runs.listeners import Listener

if TYPE_CHECKING:
    from rillflow.runs.training_run import TrainingRun


def shows(progress: bool | None, run: TrainingRun, *, blocking: bool) -> list[Listener]:
    """Who shows this run.

    Args:
        progress: True: it is shown wherever it runs; False: nowhere; None: where somebody looks.
        run: to be shown.
        blocking: whether the terminal waits for it, and is free to be drawn on.
    """
    if progress is False:
        return []
    if in_notebook():
        from rillflow.runs.progress.notebook import NotebookDisplay

        return [NotebookDisplay(run)]
    notes = [f"view it at {run.url}"] if run.url else []
    title = run.title + (f", into {run.directory}" if run.directory else "")
    if sys.stdout is not None and sys.stdout.isatty() and blocking:
        from rillflow.runs.progress.display import Display
        from rillflow.runs.progress.plain_terminal import never_fail

        never_fail()  # whatever the terminal can write
        return [Display(title, run.until, notes)]
    if progress:
        from rillflow.runs.listener_thread import Aside
        from rillflow.runs.progress.progress_lines import Lines

        return [Aside(Lines("\n".join([title, *notes]), run.until))]
    return []


def in_notebook() -> bool:
    """Whether this is a cell of a notebook: IPython is there, and shows more than text."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None
