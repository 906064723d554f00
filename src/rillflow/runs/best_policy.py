"""The best policy of a run so far, kept beside its last.

An evaluation judges policies best. Where there is none, the mean return of training does: it is
that of the last episodes, which older policies have played, and explorers too. So it stands back as
soon as there is an evaluation.
"""

from __future__ import annotations

import math
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rillflow.errors import BuildError
from rillflow.policies.archive import PROBLEMS
from rillflow.runs.evaluator import Weights
from rillflow.runs.finite_weights import nonfinite_array

if TYPE_CHECKING:
    from rillflow.results.trained import Trained, TrainedAgents
    from rillflow.runs.learned import Learned

EPISODES = 20
"""of training, at least, whose mean may judge a policy"""
_EVERY = 10.0
"""seconds between two writes of a policy that training judges: it improves all the time"""
By = Literal["evaluation", "training"]


@dataclass(frozen=True)
class Score:
    """How good a policy is, and who says so."""

    by: By
    score: float
    """mean return"""
    steps: int
    """of the environments that the policy had learned from"""

    def beats(self, other: Score | None) -> bool:
        """Whether a policy with this score is to be kept instead of another."""
        if not math.isfinite(self.score):
            return False
        if other is None or self.by != other.by:
            return other is None or self.by == "evaluation"
        return self.score > other.score


class BestPolicy:
    """Keeps the weights of the best policy, and writes them where they belong.

    Args:
        learned: makes a policy, or those of several agents, of weights.
        path: of its file, or of the directory of several agents; None: only in memory.
    """

    def __init__(self, learned: Learned, path: Path | None = None) -> None:
        self.score: Score | None = None
        self.path = path
        self._learned = learned
        self._weights: Weights | None = None
        self._unsaved = self._told = False
        self._saved_at = -math.inf

    def consider(self, score: Score, weights: Callable[[], Weights]) -> bool:
        """Keep these weights, if they are the best so far; nobody changes them from now on."""
        if not score.beats(self.score):
            return False
        self.score, self._weights, self._unsaved = score, weights(), True
        if score.by == "evaluation" or time.monotonic() - self._saved_at >= _EVERY:
            self.save()
        return True

    def policy(self) -> Trained | TrainedAgents | None:
        """The best so far; None: there is none."""
        if self._weights is None or self.score is None:
            return None
        found: Trained | TrainedAgents = self._learned.made_of(self._weights)
        for one in getattr(found, "policies", {"": found}).values():
            one.judged = asdict(self.score)
        return found

    def save(self, *, quiet: bool = False) -> None:
        """Write it, if it is not written; on a full disk the next save tries again.

        Args:
            quiet: there is something worse to tell.
        """
        if not self._unsaved or self.path is None:
            return
        policy = self.policy()
        self._saved_at = time.monotonic()
        if policy is None or nonfinite_array(self._weights) is not None:
            return  # a policy worth nothing replaces none
        try:
            _write(policy, self.path)
        except OSError as error:
            if not self._told and not quiet:
                text = f"the best policy is not saved: {error}; training goes on, and the next save"
                warnings.warn(f"{text} is tried", stacklevel=3)
            self._told = True
        else:
            self._unsaved = self._told = False

    def go_on(self) -> None:
        """Take up what the run had kept before it was resumed: what is written says how good."""
        if self.path is None:
            return
        try:
            _bring_back(self.path)
            score = score_of(self.path)
            if score is not None:
                self._weights, self.score = self._learned.read(self.path), score
        except (OSError, BuildError, *PROBLEMS) as error:
            warnings.warn(
                f"{self.path} cannot be read, and the best policy is looked for anew: {error}",
                stacklevel=3,
            )

    def facts(self) -> dict[str, Any] | None:
        """For run.json and status.json."""
        return None if self.score is None else asdict(self.score)


def score_of(path: Path) -> Score | None:
    """The score in a file, or in a directory of several agents; None: it says nothing of one."""
    from rillflow.policies.saved import about_policy

    if not path.exists():
        return None
    files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    judged = about_policy(files[0]).get("judged") if files else None
    if not isinstance(judged, Mapping) or judged.get("by") not in ("evaluation", "training"):
        return None
    return Score(judged["by"], float(judged["score"]), int(judged["steps"]))


def _write(policy: Trained | TrainedAgents, path: Path) -> None:
    """As a whole: several files are written beside, and then take the place of those before."""
    if not hasattr(policy, "policies"):
        policy.save(path)
        return
    new, old = _beside(path)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    try:
        policy.save(new)
        if path.exists():
            path.rename(old)
        new.rename(path)
    finally:
        _bring_back(path)
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)


def _bring_back(path: Path) -> None:
    """What was there before, if whoever replaced it was stopped between two steps."""
    _, old = _beside(path)
    if old.exists() and not path.exists():
        old.rename(path)


def _beside(path: Path) -> tuple[Path, Path]:
    """Where a new directory is written, and the old one is while it is replaced."""
    return path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")
