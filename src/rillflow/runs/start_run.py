"""A training run from Python: its directory, who is told, in this thread or in one of its own."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import sys
import warnings
import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.results.config_as_json import settings_of
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.directory import RunDirectory
from rillflow.runs.interrupts import Interrupts
from rillflow.runs.job import Built, Job, run_job
from rillflow.runs.listener_thread import Aside
from rillflow.runs.listeners import JsonlLogger, Listener, StatusWriter
from rillflow.runs.metrics_file import rows_in
from rillflow.runs.progress.choose import shows
from rillflow.runs.resume_exactness import exactness
from rillflow.runs.run_options import RunOptions
from rillflow.runs.training_run import TrainingRun, say_stopping

if TYPE_CHECKING:
    from rillflow.checkpoint import Checkpoint

_AT_EXIT = 30.0
"""seconds for a run in a thread to end and to save, when the program ends"""
_in_threads: weakref.WeakSet[TrainingRun] = weakref.WeakSet()


def start(
    job: Job,
    built: Built,
    options: RunOptions,
    directory: RunDirectory | None,
    *,
    resumed: bool = False,
) -> TrainingRun:
    """Train, here or in a thread; the run, which is over if it was waited for.

    Args:
        job: what to train.
        built: of it.
        options: what goes on around it.
        directory: of the run, locked; it is released when the run is over.
        resumed: go on from its newest checkpoint.
    """
    env = job.config.env
    title = f"{job.algorithm} on {env if isinstance(env, str) else getattr(env, '__name__', env)}"
    run = TrainingRun(job.config, job.until, None if directory is None else directory.path, title)
    run.flow = built[1]
    around = _Around(job, built, options, directory, run, resumed=resumed)
    around.prepare()
    if options.wait:
        with Interrupts(around.stopping) as interrupts:
            around.train(interrupts)
        interrupts.pass_on()
        return run
    _in_threads.add(run)
    # what is registered last is called first: before the finalizers that take the engine away,
    # of which the first to be made has all of them called at the end
    weakref.finalize(run, int)
    atexit.unregister(_end_those_in_threads)
    atexit.register(_end_those_in_threads)
    run.in_thread(around.in_thread, around.wish)
    return run


class _Around:
    """Everything around one run, from its start to its end."""

    def __init__(
        self,
        job: Job,
        built: Built,
        options: RunOptions,
        directory: RunDirectory | None,
        run: TrainingRun,
        *,
        resumed: bool,
    ) -> None:
        self.job, self.options, self.directory, self.run = job, options, directory, run
        self._built: Built | None = built
        self._resumed = resumed
        self.wish = Interrupts()
        """of a run in a thread, which signals do not reach"""
        self._shows: list[Listener] = []
        self._listeners: list[Listener] = []
        self._checkpointer: Checkpointer | None = None
        self._checkpoint: Checkpoint | None = None
        self._stack = ExitStack()
        """what is given back at the end"""

    def stopping(self) -> None:
        """Say that Ctrl-C was heard."""
        for one in self._shows:
            if hasattr(one, "stopping"):
                one.stopping = True
                return
        say_stopping()

    def in_thread(self) -> None:
        """Train; what goes wrong is kept for whoever waits, and told if nobody does."""
        try:
            self.train(self.wish)
        except BaseException as error:
            if not self.run.told():
                with contextlib.suppress(Warning):  # where warnings are errors
                    warnings.warn(
                        f"{self.run.title} failed in its thread ({self.run.why}); "
                        "run.wait() raises the error",
                        stacklevel=2,
                    )
            if not isinstance(error, Exception):
                return

    def prepare(self) -> None:
        """What can go wrong before anything is trained, such as a port that is taken."""
        options, directory = self.options, self.directory
        with ExitStack() as stack:
            if directory is not None:
                stack.callback(self._leave_directory, directory)
                self._checkpointer = stack.enter_context(checkpointer_for(options, directory))
                if self._resumed:
                    self._checkpoint = self._checkpointer.newest()
                self.run.url = opened_view(options, directory, stack)
                self._listeners = loggers_for(options, directory)
            self._stack = stack.pop_all()

    def train(self, interrupts: Interrupts) -> None:
        """Train to the end, whatever it is."""
        try:
            with self._stack:
                self._train(interrupts)
        except BaseException as error:
            self.run.fails(error)
            raise
        finally:
            self.run.url = None
            self._checkpointer = self._checkpoint = None  # they know what was trained with
            self._listeners, self._shows = [], []

    def _train(self, interrupts: Interrupts) -> None:
        options = self.options
        self._shows = shows(options.progress, self.run, blocking=options.wait)
        if self.run.url is not None and not self._shows:
            print(f"view it at {self.run.url}", file=sys.stderr, flush=True)
        built, self._built = self._built, None  # what it was made of may go when it is over
        run_job(
            self.job,
            listeners=[*self._listeners, *self._shows],
            interrupts=interrupts,
            on_row=options.on_row,
            built=built,
            checkpointer=self._checkpointer,
            checkpoint=self._checkpoint,
            callbacks=options.callbacks,
            seen=self.run,
            record_every=options.record_every,
        )

    def _leave_directory(self, directory: RunDirectory) -> None:
        """Draw what there is to draw; a run that never began leaves nothing."""
        try:
            if next(rows_in(directory.metrics), None) is not None:
                draw_curve(directory)
            elif not self._resumed:
                shutil.rmtree(directory.path, ignore_errors=True)
        finally:
            directory.release()


def new_directory(path: Path, job: Job, built: Built, **more: Any) -> RunDirectory:
    """A new directory for a run, locked, with what `rillflow train` writes before it begins."""
    env = job.config.env
    level = exactness(job, built[1])
    directory = RunDirectory.create(
        path.parent,
        path.name,
        algorithm=job.algorithm,
        env=env if isinstance(env, str) else _label(env),
        engine=job.engine_name,
        seed=job.seed,
        config=settings_of(job.config),
        until=job.until,
        agents=job.agents,
        exactness=level,
        **{name: value for name, value in more.items() if value is not None},
    )
    try:
        directory.write_graph(built[1])
    except BaseException:  # also Ctrl-C: a run that never began leaves nothing
        shutil.rmtree(directory.path, ignore_errors=True)
        directory.release()
        raise
    return directory


def checkpointer_for(options: Any, directory: RunDirectory) -> Checkpointer:
    """Who saves the run, as often as the options say."""
    return Checkpointer(
        directory,
        seconds=options.checkpoint_seconds or None,
        steps=options.checkpoint_steps or None,
        keep=options.keep,
        adopt=getattr(options, "adopt", False),
    )


def opened_view(options: Any, directory: RunDirectory, stack: ExitStack) -> str | None:
    """The address of the view, if one was asked for; it closes with the stack."""
    if not options.view:
        return None
    from rillflow.web.server import serve

    return stack.enter_context(serve(directory.path, port=options.view_port)).url


def loggers_for(options: Any, directory: RunDirectory) -> list[Listener]:
    """Who writes: metrics and status always, TensorBoard and Weights & Biases if asked."""
    found: list[Listener] = [
        JsonlLogger(directory.metrics),
        StatusWriter(directory.path / "status.json"),
    ]
    if options.tensorboard:
        from rillflow.runs.tensorboard import TensorBoard

        found.append(Aside(TensorBoard(directory.path / "tensorboard")))
    if options.wandb is not None:
        from rillflow.runs.wandb import WandbLogger

        about = directory.about
        logger = WandbLogger(
            options.wandb,
            directory.path.name,
            directory.path,
            about.get("config"),
            identity=about.get("id"),
        )
        found.append(Aside(logger))
    return found


def draw_curve(directory: RunDirectory) -> None:
    """The learning curve as a picture, where it can be drawn; it is no reason to fail."""
    from rillflow.errors import RillflowError
    from rillflow.results import plot_runs

    with contextlib.suppress(RillflowError, OSError):
        plot_runs([directory.path], directory.curve)


def _label(env: Any) -> str:
    from rillflow.callables import label_of

    return label_of(env)


def _end_those_in_threads() -> None:
    """A program that ends takes nothing away: what trains in a thread is stopped and saved."""
    left = [run for run in _in_threads if not run.over]
    for run in left:
        run.stop()
    for run in left:
        with contextlib.suppress(BaseException):
            run.wait(_AT_EXIT)
