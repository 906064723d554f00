"""Saves a training run now and then, at its end however it ends, and lets it go on from there.

What is saved is the policy, and then a checkpoint: a cut between two results, with the state of
every operator, actor, learner, replay and random generator, and what was counted. A run goes on
from its checkpoint alone. Rows of metrics that were written after the cut are dropped then: they
will be made again.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.checkpoint import CheckpointNotSaved, CheckpointStore, UnsavableState
from rillflow.errors import RillflowError, RunError
from rillflow.runs.directory import RunDirectory
from rillflow.runs.finite_weights import nonfinite, nonfinite_array
from rillflow.runs.repair_directory import no_checkpoint, repaired
from rillflow.runs.waiting_limits import Overdue, Waits, state_within

if TYPE_CHECKING:
    from rillflow.checkpoint import Checkpoint
    from rillflow.rl.metrics import Progress
    from rillflow.scheduler.run import Run

FIRST = 2.0
"""seconds after which a run is saved for the first time"""
GIVE_UP_AFTER = 5
"""saves in a row that the disk did not take, before the run fails"""
PATIENCE = 15.0
"""seconds at least for which the actors' states are waited for; three of their slowest answers, if
these take longer"""
HURRY = 5.0
"""the same, when somebody has failed, hangs, or wants to stop"""
_TRIES = 5
"""of the checkpoint of a run that failed: each worker may have failed with it, and says so once"""
_ABOUT = 100_000
"""characters of a run.json that each checkpoint may repeat"""


class Checkpointer:
    """The policy and the checkpoints of one run.

    Args:
        directory: of the run; checkpoints are written to its `checkpoints/`.
        seconds: between two saves, less at the beginning; None: not by time.
        steps: of the environments between two saves; None: not by steps. On `sim` a run that is
            saved by steps alone can be repeated exactly, with its saves.
        keep: how many checkpoints to keep.
        adopt: go on from a checkpoint of another run, if one was put here.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        seconds: float | None = 60.0,
        steps: int | None = None,
        keep: int = 3,
        adopt: bool = False,
    ) -> None:
        self.directory = directory
        self.about = directory.about
        self.store = CheckpointStore(
            directory.checkpoints, keep=keep, run=self.about.get("id"), adopt=adopt
        )
        self.seconds = seconds
        self.steps = steps
        self.rows = 0
        """results of the run so far"""
        self._run: Run[Any]
        self._progress: Progress
        self._waits: Waits
        self._trained: Callable[[], Any]
        self._new = 0
        """results since this process began: there is something to save"""
        self._off = False
        self._saved: Path | None = None
        """the newest checkpoint, until somebody has heard of it"""
        self._began = self._saved_at = time.monotonic()
        self._saved_steps = 0

    # -- going on ------------------------------------------------------------------------------

    def newest(self) -> Checkpoint:
        """What the run goes on from; a run that has saved nothing cannot."""
        found = self.store.newest()
        if found is None:
            raise no_checkpoint(self.directory)
        return found

    def restore(self, checkpoint: Checkpoint, run: Run[Any], progress: Progress) -> None:
        """Bring a run that has not begun, and what is counted, to where the checkpoint was made."""
        state = checkpoint.state
        if not isinstance(state, Mapping) or not {"run", "progress", "rows"} <= state.keys():
            raise RunError(
                f"{checkpoint.path} is no checkpoint of a training run: it has no state of one."
            )
        run.set_state(state["run"])
        progress.set_state(state["progress"])
        self.rows = state["rows"]
        self._saved_steps = checkpoint.step

    def repair(self, checkpoint: Checkpoint, flow: Any) -> None:
        """Let the rest of the directory follow the checkpoint, and tell what had to be repaired.

        The run has taken the checkpoint by now: one that it refuses changes nothing here.
        """
        repairs = repaired(self.directory, checkpoint.state, flow)
        if repairs:
            told = "; ".join(repairs)
            warnings.warn(f"{self.directory}: repaired to go on: {told}", stacklevel=3)

    # -- saving --------------------------------------------------------------------------------

    def begin(
        self, run: Run[Any], progress: Progress, waits: Waits, trained: Callable[[], Any]
    ) -> None:
        """This is the run; `trained` gives what it has learned so far."""
        self._run, self._progress, self._waits, self._trained = run, progress, waits, trained

    def count_row(self) -> None:
        """Another result: from now on there is something to save, whoever fails with it."""
        self.rows += 1
        self._new += 1

    def after_row(self) -> None:
        """Everybody has heard of a result: save if it is time."""
        by_time = time.monotonic() - self._saved_at >= self._interval()
        done = self._progress.steps - self._saved_steps
        if by_time or (self.steps is not None and done >= self.steps):
            self.save()

    def _interval(self) -> float:
        """Seconds between two saves: few at first, twice as many each time, up to `seconds`.

        A run that dies young has little to lose, but that it has. On `sim`, where a cut is part of
        what is repeated, there are no early ones.
        """
        if self.seconds is None:
            return math.inf
        if self.about.get("engine") == "sim":
            return self.seconds
        return min(self.seconds, max(FIRST, self._saved_at - self._began))

    def take_saved(self) -> Path | None:
        """The checkpoint that was written since the last call, if one was."""
        saved, self._saved = self._saved, None
        return saved

    def save(self) -> None:
        """Save now; a disk that is full stops nothing, until it has been full for long."""
        try:
            self._save_policy()
        except (OSError, _NotFinite) as error:
            _warn(f"the policy is not saved: {error}; training goes on, and the next save is tried")
        try:
            self._save_checkpoint(self._patience())
        except CheckpointNotSaved as error:
            if self.store.failures >= GIVE_UP_AFTER:
                raise
            _warn(f"{error}; training goes on, and the next save is tried")
        except (_NotFinite, Overdue) as error:
            _warn(f"no checkpoint this time: {error}; training goes on, and the next save is tried")

    def finish(self, *, hurry: bool = False) -> None:
        """Save at the end of a run; what could not be written is an error, after all was tried.

        Args:
            hurry: somebody hangs, or wants to stop: do not wait for long.
        """
        problems = []
        try:
            self._save_policy()
        except (OSError, _NotFinite) as error:
            problems.append(f"the policy is not saved: {error}")
        try:
            self._save_checkpoint(HURRY if hurry else self._patience())
        except (CheckpointNotSaved, _NotFinite) as error:
            problems.append(str(error))
        except Overdue as error:
            _warn(f"no checkpoint of the end of this run: {error}; {self._before()}")
        if problems:
            raise RunError(f"{'; '.join(problems)} {self._before().capitalize()}.")

    def rescue(self, error: BaseException) -> None:
        """Save what a run that fails, or is stopped at once, has learned: the policy comes first.

        A user who stops at once does not wait for a checkpoint. What goes wrong here is told, and
        does not hide the error.
        """
        if not self._new:
            return
        try:
            self._save_policy()
        except Exception as problem:
            _warn(f"the policy is not saved: {problem}")
        if isinstance(error, KeyboardInterrupt):
            return
        try:
            self._save_checkpoint(HURRY, failed=str(error))
        except Exception as problem:
            _warn(f"no checkpoint of this failure: {problem}; {self._before()}")
        else:
            error.add_note(f"what was learned is in {self.directory}, and `resume` goes on with it")

    def _before(self) -> str:
        """What there is instead."""
        older = self.store.checkpoints()
        return f"the newest is of step {older[0][1].step:,}" if older else "there is none before it"

    def _save_policy(self) -> None:
        """From what the driver knows, without asking anybody."""
        trained = self._trained()
        policies = getattr(trained, "policies", {"": trained})
        for name, policy in policies.items():
            where = nonfinite_array(policy.weights, name)
            if where is not None:
                raise _NotFinite(f"its weights {where!r} are not finite, and {_KEPT}")
        trained.save(self.directory.policy)

    def _patience(self) -> float:
        slowest = max((line["slowest"] for line in self._run.workers().values()), default=0.0)
        return max(PATIENCE, 3 * slowest)

    def _save_checkpoint(self, patience: float, *, failed: str | None = None) -> None:
        if self._off:
            return
        taken = self._state(patience, tries=1 if failed is None else _TRIES)
        self._saved_at, self._saved_steps = time.monotonic(), self._progress.steps
        lost = [] if failed is None else _lost(self._run, taken)
        if lost:
            raise Overdue(f"the states of {', '.join(lost)} are lost")
        where = nonfinite(taken)
        if where is not None:
            raise _NotFinite(f"{where} is not finite, and {_KEPT}")
        metrics = self.directory.metrics
        state = {
            "run": taken,
            "progress": self._progress.get_state(),
            "rows": self.rows,
            "metrics_bytes": metrics.stat().st_size if metrics.exists() else 0,
        }
        try:
            step, facts = self._progress.steps, self._facts(failed)
            self._saved = self.store.save(step=step, state=state, facts=facts)
        except UnsavableState as error:
            self._off = True
            _warn(f"no checkpoints of this run: {error}")

    def _state(self, patience: float, tries: int) -> dict[str, Any]:
        for left in reversed(range(tries)):
            try:
                state = state_within(self._run, self._waits, patience)
                break
            except Overdue:
                raise
            except RillflowError:
                if not left:
                    raise
        return state

    def _facts(self, failed: str | None) -> dict[str, Any]:
        """For people, and for a run.json that is lost."""
        facts = {name: self.about.get(name) for name in ("algorithm", "env", "seed", "engine")}
        if len(str(self.about)) <= _ABOUT:
            facts["about"] = self.about
        return facts if failed is None else {**facts, "failed": failed[:1000]}

    def close(self) -> None:
        """Let another process save here."""
        self.store.close()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_KEPT = "what was saved before is kept instead"


class _NotFinite(RunError):  # noqa: N818 - what it is
    """What was learned is worth nothing."""


def _lost(run: Run[Any], state: Mapping[str, Any]) -> list[str]:
    """Actors without which a run cannot go on from its state.

    Workers that only sample can be missing, where the core takes such a state; a learner that is
    lost has taken with it what it had learned.
    """
    lost = sorted(run.workers().keys() - state["actors"].keys())
    if state["format"] == 1:  # such a state is for exactly the actors that were there
        return lost
    program = run.program
    learners = {program.group_names[one.actors.uid] for one in program.backgrounds}
    return [name for name in lost if name.rpartition("-")[0] in learners]


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)
