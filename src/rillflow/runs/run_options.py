"""What goes on around a training run: how often it is saved, who is told, what is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rillflow.errors import BuildError
from rillflow.runs.callbacks import Callbacks
from rillflow.runs.film_while_training import check_films
from rillflow.runs.job import Job

_NEED_FILES = {
    "view": "view=True shows the files of a run",
    "tensorboard": "tensorboard=True writes into the directory of a run",
    "wandb": "wandb=... writes into the directory of a run",
    "record_every": "record_every=... films into the directory of a run",
    "checkpoint_steps": "checkpoint_steps=... saves into the directory of a run",
}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The same for `rf.train`, `rf.run` and `rf.resume`; none of it changes what is learned."""

    callbacks: Callbacks
    on_row: Callable[[dict[str, float]], None] | None = None
    wait: bool = True
    """whether to come back when it is over, or at once, with the run in a thread"""
    progress: bool | None = None
    """whether it is shown; None: in a notebook, and on a terminal that waits for it"""
    view: bool = False
    view_port: int = 0
    tensorboard: bool = False
    wandb: str | None = None
    checkpoint_seconds: float | None = 60.0
    checkpoint_steps: int | None = None
    keep: int = 3
    record_every: int | None = None
    adopt: bool = False

    def check(self, *, has_directory: bool) -> RunOptions:
        """Refuse what needs files, of a run that has none."""
        if has_directory:
            return self
        for name, why in _NEED_FILES.items():
            if getattr(self, name):
                raise BuildError(
                    f"{why}, and this run writes none: give it a directory, run_dir='runs/my-run'."
                )
        if self.callbacks.wants("on_checkpoint"):
            raise BuildError(
                "on_checkpoint hears of checkpoints, and this run writes none: give it a "
                "directory, run_dir='runs/my-run'."
            )
        return self

    def check_job(self, job: Job) -> None:
        """Refuse what this job cannot be given, before anything is written."""
        if self.record_every is not None:
            check_films(self.record_every, job.config, job.agents)
