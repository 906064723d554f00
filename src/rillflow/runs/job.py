"""A training run from its description: what `rf.train` does, with listeners and a way to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rillflow.engines.base import Engine
from rillflow.errors import BuildError, RunError
from rillflow.rl.config import AlgorithmConfig
from rillflow.rl.devices import learner_devices
from rillflow.rl.metrics import Progress
from rillflow.rl.results import TrainStats
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.runs.interrupts import Interrupts
from rillflow.runs.keeper import Keeper, rows_of
from rillflow.runs.listeners import Listener, Listeners, Row
from rillflow.training import Trained

if TYPE_CHECKING:
    from rillflow.checkpoint import Checkpoint


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

    @property
    def engine_name(self) -> str:
        """Of the engine, however it was given."""
        return self.engine if isinstance(self.engine, str) else self.engine.name

    def build(self) -> tuple[Workers, Any]:
        """The workers and the flow; nothing is started."""
        learner_devices(self.config.num_gpus)
        workers = Workers(self.config)
        flow = self.module.plan(ParallelRollouts(workers), workers)
        if not hasattr(flow, "run"):
            raise BuildError(
                f"the plan of {self.algorithm} must return the flow of its training results, found "
                f"{type(flow).__name__}: is a `return` missing, or the gathering?"
            )
        return workers, flow


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    trained: Trained
    state: str
    """finished or stopped"""


def run_job(
    job: Job,
    *,
    listeners: Iterable[Listener] = (),
    interrupts: Interrupts | None = None,
    stop: Callable[[Row], bool] | None = None,
    built: tuple[Workers, Any] | None = None,
    keeper: Keeper | None = None,
    checkpoint: Checkpoint | None = None,
) -> Outcome:
    """Train until a limit is reached, `stop(row)` says so, or the user does.

    Args:
        job: what to do.
        listeners: told of the start, of each row and of the end, whatever the end is.
        interrupts: the caller's, entered: makes Ctrl-C finish the update, not stop at once.
        stop: asked after each row; a run that it ends counts as stopped.
        built: what `job.build()` gave, if it was looked at before.
        keeper: saves the run now and then, and at its end.
        checkpoint: one of the keeper's, to go on from.
    """
    workers, flow = job.build() if built is None else built
    told = Listeners(listeners)
    progress = Progress()
    history: list[dict[str, float]] = []
    state = "finished"
    run = flow.run(job.engine, seed=job.seed)
    if keeper is not None and checkpoint is not None:
        keeper.restore(checkpoint, run, progress)
        history = rows_of(keeper.directory)
    try:
        with run:
            run.on_metrics(progress.record)
            told.on_start(run, flow)
            for result in run:
                history.append(_row(progress, result))
                told.on_row(history[-1])
                if keeper is not None:
                    keeper.after_row(run, progress)
                if _reached(job.until, history[-1]):
                    break
                if interrupts is not None:
                    interrupts.ready = True
                if (interrupts is not None and interrupts.wished) or (stop and stop(history[-1])):
                    state = "stopped"
                    break
            if workers.weights_key not in run.shared:
                raise RunError("nothing in this plan publishes weights, as TrainOneStep does.")
            if keeper is not None:
                keeper.save(run, progress)
            weights = run.shared[workers.weights_key].weights
            trained = Trained(workers.config, workers.spec, weights, history, run.stats())
    except KeyboardInterrupt:
        told.on_end("stopped")
        raise
    except BaseException as error:
        told.on_end("failed", error)
        raise
    told.on_end(state)
    return Outcome(trained, state)


def _row(progress: Progress, result: object) -> dict[str, float]:
    if not isinstance(result, TrainStats):
        raise RunError(
            "a plan's results are TrainStats, such as TrainOneStep gives, found "
            f"{type(result).__name__}."
        )
    return progress.row(result)


def _reached(until: Mapping[str, float], row: Row) -> bool:
    return any(row[name] >= limit for name, limit in until.items())
