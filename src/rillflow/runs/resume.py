"""`rf.resume`: go on with a run from its directory, as `rillflow resume` does."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from rillflow.engines.contract import Engine
from rillflow.errors import BuildError
from rillflow.learning.evaluation_settings import EVALUATION_SETTINGS
from rillflow.learning.fault_settings import FAULT_SETTINGS
from rillflow.runs.callbacks import Callback, Callbacks
from rillflow.runs.directory import RunDirectory
from rillflow.runs.finished import finished_already
from rillflow.runs.job import Built, Job
from rillflow.runs.limits import checked
from rillflow.runs.load_policy import load
from rillflow.runs.own_flow import job_of_flow
from rillflow.runs.run_options import RunOptions
from rillflow.runs.saved_job import OWN_FLOW, job_of
from rillflow.runs.start_run import checkpointer_for, start
from rillflow.runs.train import Told, Until
from rillflow.runs.training_run import TrainingRun

OWN_AGAIN = "rf.resume({run!r}, flow=flow, workers=workers, until={{{limit!r}: {number}}})"
"""how to go on beyond the limits with a flow that its author builds again"""
_AGAIN = "rf.resume({run!r}, until={{{limit!r}: {number}}})"


def resume(
    run_dir: str | Path,
    *,
    until: Until = None,
    engine: str | Engine | None = None,
    num_workers: int | None = None,
    flow: Any = None,
    workers: Any = None,
    adopt: bool = False,
    trust: Collection[str] = (),
    wait: bool = True,
    progress: bool | None = None,
    view: bool = False,
    view_port: int = 0,
    tensorboard: bool = False,
    wandb: str | None = None,
    checkpoint_seconds: float | None = 60.0,
    checkpoint_steps: int | None = None,
    keep: int = 3,
    record_every: int | None = None,
    callbacks: Iterable[Callback] = (),
    on_result: Callback | None = None,
    on_episode: Callback | None = None,
    on_evaluation: Callback | None = None,
    on_checkpoint: Callback | None = None,
    on_progress: Told | None = None,
    **settings: Any,
) -> TrainingRun:
    """Go on with a run from its newest checkpoint, in its own directory and with its own settings.

    A run that has reached its limits is given back as it is, and that is said.

    Args:
        run_dir: of the run.
        until: other limits than those it had; it keeps them from here on.
        engine: another engine than the one it ran on.
        num_workers: another number of workers than it began with.
        flow: that of a run that `rf.run` began, built again.
        workers: of that flow.
        adopt: go on from a checkpoint of another run that was copied there.
        trust: code of one's own that the run's settings name and that may be imported.
        wait: as for `train`; so is what follows.
        progress: whether it is shown.
        view: show it in the browser while it goes on.
        view_port: of the view.
        tensorboard: write events for TensorBoard into the run's directory.
        wandb: report to Weights & Biases, in this project.
        checkpoint_seconds: between two checkpoints; None: not by time.
        checkpoint_steps: steps between two checkpoints; None: not by steps.
        keep: how many checkpoints to keep.
        record_every: steps between two films of an episode, in the run's directory.
        callbacks: functions that hear of the run and may end it.
        on_result: one of them, of any name; so are the next three.
        on_episode: called with each episode that ended.
        on_evaluation: called with each evaluation.
        on_checkpoint: called with each checkpoint that was written.
        on_progress: called with each row of the history; what it raises ends the run.
        settings: of faults and of evaluation, from here on; all others are the run's own.
    """
    wrong = sorted(settings.keys() - {*FAULT_SETTINGS, *EVALUATION_SETTINGS})
    if wrong:
        raise BuildError(
            f"a run goes on with its own {', '.join(wrong)}; what may change is until, engine, "
            f"num_workers, {', '.join((*FAULT_SETTINGS, *EVALUATION_SETTINGS))}."
        )
    heard = {"on_result": on_result, "on_episode": on_episode}
    heard |= {"on_evaluation": on_evaluation, "on_checkpoint": on_checkpoint}
    options = RunOptions(
        callbacks=Callbacks(callbacks, heard),
        on_row=on_progress,
        wait=wait,
        progress=progress,
        view=view,
        view_port=view_port,
        tensorboard=tensorboard,
        wandb=wandb,
        checkpoint_seconds=checkpoint_seconds,
        checkpoint_steps=checkpoint_steps,
        keep=keep,
        record_every=record_every,
        adopt=adopt,
    )
    limits = None if until is None else checked(until)
    if num_workers is not None:
        settings["num_workers"] = num_workers
    directory = RunDirectory.open(run_dir)
    directory.lock()
    try:
        own = flow is not None or workers is not None
        if own:
            job, built = _with_flow(directory, flow, workers, limits, engine, settings)
        else:
            job = job_of(directory, limits, engine, settings, trust)
            built = None
        options.check_job(job)
        again = OWN_AGAIN if own else _AGAIN
        with checkpointer_for(options, directory) as checkpointer:
            said = finished_already(directory, checkpointer.newest(), job.until, again)
        if said is None:
            directory.remember_limits(job.until)
            return start(job, built or job.build(), options, directory, resumed=True)
    except BaseException:
        directory.release()
        raise
    directory.release()
    warnings.warn(said, stacklevel=2)
    over = TrainingRun(job.config, job.until, directory.path, f"{job.algorithm} in {directory}")
    over.ends(load(run_dir, trust=trust), "finished", "it was finished before")
    return over


def _with_flow(
    directory: RunDirectory, flow: Any, workers: Any, limits: Any, engine: Any, settings: Any
) -> tuple[Job, Built]:
    """The job of a run whose flow its author has built again."""
    about = directory.about
    if about.get("flow") != OWN_FLOW:
        raise BuildError(
            f"{str(directory)!r} is a run of {about.get('algorithm')}, which builds its own flow: "
            "leave flow and workers out."
        )
    if flow is None or workers is None:
        raise BuildError("a flow goes on with its workers: give both flow=... and workers=....")
    engine = engine or about.get("engine", "local")
    until = dict(about.get("until", {})) if limits is None else limits
    return job_of_flow(flow, workers, until, about["seed"], engine, settings), (workers, flow)
