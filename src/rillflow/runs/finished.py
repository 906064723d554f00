"""Whether a run has already reached what it would be resumed for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rillflow.rl.metrics import Progress
from rillflow.runs.limits import reached

if TYPE_CHECKING:
    from rillflow.checkpoint import Checkpoint
    from rillflow.runs.directory import RunDirectory


AGAIN = "rillflow resume {run} --until {limit}={number}"
"""how to go on beyond the limits, on the command line"""


def finished_already(
    directory: RunDirectory,
    checkpoint: Checkpoint,
    until: Mapping[str, float],
    again: str = AGAIN,
) -> str | None:
    """What to say of a run that has nothing left to do for these limits; None: it has.

    Args:
        directory: of the run.
        checkpoint: what it would go on from.
        until: the limits, those it began with or new ones.
        again: how to go on beyond them.
    """
    if not isinstance(checkpoint.state, Mapping) or "progress" not in checkpoint.state:
        return None  # whoever goes on from it says what it is
    progress = Progress()
    progress.set_state(checkpoint.state["progress"])
    row = progress.row()
    row["seconds"] = checkpoint.state["progress"]["seconds"]
    best = _evaluated(directory) if "eval_return" in until else None
    if best is not None:
        row["eval_return"] = best
    names = reached(until, row)
    if not names:
        return None
    limits = ", ".join(f"{name}={_shown(until[name])}" for name in names)
    got = f"{row['steps']:,} steps" + (
        f", return {row['return']:.1f}" if row["return"] == row["return"] else ""
    )
    further = "seconds" if "seconds" in names else "steps"
    beyond = _round(2 * max(until.get(further, 0), row[further]))
    way = again.format(run=str(directory), limit=further, number=_shown(beyond))
    return (
        f"{directory} is finished: it has reached {limits} ({got}), and nothing was trained. To "
        f"train on, give a limit beyond: {way}"
    )


def _evaluated(directory: RunDirectory) -> float | None:
    """The best evaluation of a run, if there was one."""
    from rillflow.policies.archive import PROBLEMS
    from rillflow.runs.best_policy import score_of

    try:
        score = score_of(directory.best_policy)
    except (OSError, *PROBLEMS):
        return None
    return score.score if score is not None and score.by == "evaluation" else None


def _round(limit: float) -> float:
    """A number with one figure that is not below.

    >>> _round(51_800), _round(16.2)
    (60000.0, 20.0)
    """
    size = 10.0 ** math.floor(math.log10(limit))
    return math.ceil(limit / size) * size


def _shown(limit: float) -> str:
    return f"{limit:.0f}" if float(limit).is_integer() else f"{limit:g}"
