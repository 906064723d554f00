"""A run's directory brought back to where its checkpoint was made."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rillflow.errors import RunError
from rillflow.runs.directory import RunDirectory
from rillflow.runs.metrics_file import cut_rows


def repaired(directory: RunDirectory, state: Mapping[str, Any], flow: Any) -> list[str]:
    """Let what else is in the directory follow a checkpoint; what was broken there, for a message.

    Rows of metrics that were written after the checkpoint are dropped without a word: the run
    makes them again.

    Args:
        directory: of the run.
        state: of the checkpoint.
        flow: of the run, whose picture may be missing.
    """
    metrics = directory.metrics
    cut = cut_rows(metrics, state["progress"]["seconds"])
    lost = state.get("metrics_bytes", 0) - cut.bytes
    if not (directory.path / "graph.json").exists():
        with suppress(OSError):  # it is there to be looked at
            directory.write_graph(flow)
    return [
        *([f"removed {_torn(cut.torn)} of {metrics.name}"] if cut.torn else []),
        *([f"{lost:,} bytes of rows of {metrics.name} are lost"] if lost > 0 else []),
    ]


def no_checkpoint(directory: RunDirectory) -> RunError:
    """What can be done with a run that has nothing to go on from."""
    about = directory.about
    command = f"rillflow train {about.get('algorithm')} {about.get('env')}"
    policy = f" Its policy is there, though: `rillflow evaluate {directory}`."
    return RunError(
        f"{directory} has no checkpoint: it ended before its first save, or they were removed. "
        f"Begin anew with `{command}`, or put its checkpoints back into {directory.checkpoints}."
        + (policy if directory.policy.exists() else "")
    )


def _torn(lines: int) -> str:
    return "a torn line" if lines == 1 else f"{lines} torn lines"
