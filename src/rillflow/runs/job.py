"""A training run from its description: what `rf.train` does, with listeners and a way to stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rillflow.engines.contract import Engine
from rillflow.errors import BuildError
from rillflow.learning.acting_device import require_devices
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.devices import learner_devices, require_one_policy
from rillflow.learning.schedules import over_run
from rillflow.rl.faults import worker_policy
from rillflow.rl.metrics import Progress
from rillflow.rl.multi_agent import MultiAgentWorkers
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.runs.callbacks import Callbacks
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.few_rows import FewRows
from rillflow.runs.film_while_training import check_films
from rillflow.runs.follow_up import followed
from rillflow.runs.history import History
from rillflow.runs.interrupts import Interrupts
from rillflow.runs.learned import Learned
from rillflow.runs.listeners import Listener, Listeners, Row
from rillflow.runs.loop import Loop
from rillflow.runs.metrics_file import rows_in
from rillflow.runs.multi_agent import build_agents
from rillflow.runs.waiting_limits import Waits

if TYPE_CHECKING:
    from rillflow.checkpoint import Checkpoint
    from rillflow.runs.training_run import TrainingRun
    from rillflow.scheduler.run import Run

_RESTORING = 300.0
"""seconds in which nobody says anything while a checkpoint is restored, before that is given up"""
Built = tuple[Workers | MultiAgentWorkers, Any]
"""the workers and the flow of a job"""


@dataclass(frozen=True)
class Job:
    """What to train, and until when."""

    algorithm: str
    """its name, as the user gave it"""
    module: Any
    """with `Config` and `plan`"""
    config: AlgorithmConfig
    until: Mapping[str, float]
    seed: int = 0
    engine: str | Engine = "local"
    agents: Mapping[str, str] | None = None
    """for each of several agents the name of its policy; None: the environment has one agent"""

    @property
    def engine_name(self) -> str:
        """Of the engine, however it was given."""
        return self.engine if isinstance(self.engine, str) else self.engine.name

    def build(self) -> Built:
        """The workers and the flow; nothing is started."""
        learner_devices(self.config.num_gpus)  # what is missing is told before workers start
        require_devices(self.config, self.engine_name)
        require_one_policy(self.config, several=self.agents is not None)
        workers: Workers | MultiAgentWorkers
        config = over_run(self.config, self.until)
        if self.agents is None:
            workers = Workers(config)
            flow = self.module.plan(ParallelRollouts(workers), workers)
        else:
            workers, flow = build_agents(self.module, config, self.agents)
        if not hasattr(flow, "run"):
            raise BuildError(
                f"the plan of {self.algorithm} must return the flow of its training results, found "
                f"{type(flow).__name__}: is a `return` missing, or the gathering?"
            )
        return workers, flow


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    trained: Any
    """`Trained`; of several agents, `TrainedAgents`"""
    state: str
    """finished or stopped"""
    why: str = ""
    """it ended, where that can be said in words"""


def run_job(
    job: Job,
    *,
    listeners: Iterable[Listener] = (),
    interrupts: Interrupts | None = None,
    stop: Callable[[Row], bool] | None = None,
    on_row: Callable[[dict[str, float]], None] | None = None,
    built: Built | None = None,
    checkpointer: Checkpointer | None = None,
    checkpoint: Checkpoint | None = None,
    callbacks: Callbacks | None = None,
    seen: TrainingRun | None = None,
    record_every: int | None = None,
) -> Outcome:
    """Train until a limit is reached, `stop(row)` says so, or the user does.

    Args:
        job: what to do.
        listeners: told of the start, of each row and of the end, whatever the end is.
        interrupts: the caller's, entered: makes Ctrl-C finish the update, not stop at once.
        stop: asked after each row; a run that it ends counts as stopped.
        on_row: called with each row; unlike what a listener raises, what it raises ends the run.
        built: what `job.build()` gave, if it was looked at before.
        checkpointer: saves the run now and then, and at its end.
        checkpoint: one of the checkpointer's, to go on from.
        callbacks: the user's.
        seen: the run as the user has it; by default a new one, for callbacks.
        record_every: steps between two films of the policy, in the checkpointer's directory.
    """
    if record_every is not None:
        check_films(record_every, job.config, job.agents)
    workers, flow = job.build() if built is None else built
    told = Listeners(listeners)
    progress, history, few = Progress(), History(), FewRows()
    run = flow.run(job.engine, seed=job.seed, on_failure=worker_policy(job.config))
    run.on_fault(_told)
    if checkpointer is not None and checkpoint is not None:
        checkpointer.restore(checkpoint, run, progress)

    def heard(row: dict[str, float]) -> None:
        history.append(row)
        if few.passes(row):
            told.on_row(row)
        if on_row is not None:
            on_row(row)

    learned = Learned(workers, run, history.rows)
    follow = followed(
        job, learned, run, progress, checkpointer, interrupts, callbacks, seen, record_every
    )
    with _failures_told(told, few):
        with ExitStack() as at_the_end, run, Waits(run, interrupts) as waits:
            at_the_end.callback(lambda: follow.close(history.newest))
            run.on_metrics(progress.record)
            run.on_metrics(_noted)
            follow.listen(run)
            if checkpointer is not None:
                checkpointer.begin(run, progress, waits, learned.policy)
                _go_on_from(checkpoint, checkpointer, run, flow, waits, history)
            told.on_start(run, flow)
            try:
                loop = Loop(run, progress, waits, heard, checkpointer, interrupts, stop, follow)
                ending = loop.run(job.until)
                follow.run.last_result()
                for row in follow.last_rows(ending, interrupts):
                    heard(row)
                trained = learned.policy()
            except BaseException as error:
                if checkpointer is not None:
                    checkpointer.rescue(error)
                raise
            if interrupts is not None:
                interrupts.saving = True
            if checkpointer is not None:
                checkpointer.finish(hurry=ending.hurry)
                follow.saved(checkpointer.take_saved())
        _tell_last(told, few)
        told.on_end(ending.state)
    trained.best = follow.best.policy()
    follow.run.ends(trained, ending.state, ending.why)
    return Outcome(trained, ending.state, ending.why)


@contextmanager
def _failures_told(told: Listeners, few: FewRows) -> Iterator[None]:
    """Inside, what ends a run otherwise than it should is told to those who listen."""
    try:
        yield
    except KeyboardInterrupt:
        _tell_last(told, few)
        told.on_end("stopped")
        raise
    except BaseException as error:
        _tell_last(told, few)
        told.on_end("failed", error)
        raise


def _tell_last(told: Listeners, few: FewRows) -> None:
    """The last row of a run is told, too."""
    if few.left is not None:
        told.on_row(few.left)
        few.left = None


def _go_on_from(
    checkpoint: Checkpoint | None,
    checkpointer: Checkpointer,
    run: Run[Any],
    flow: Any,
    waits: Waits,
    history: History,
) -> None:
    """Have a run take its checkpoint, and then the rest of its directory follow."""
    if checkpoint is None:
        return
    with waits.silence(_RESTORING):
        run.start()
    checkpointer.repair(checkpoint, flow)
    for row in rows_in(checkpointer.directory.metrics):
        history.append(row)


def _noted(actor: str, seq: int, metrics: Mapping[str, Any]) -> None:
    """What an actor has to say to the user."""
    for note in metrics.get("notes", ()):
        _told(f"{actor}: {note}")


def _told(text: str) -> None:
    warnings.warn(text, stacklevel=2)
