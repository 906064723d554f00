"""`rf.run`: a flow of one's own as a training run, with all that a run of an algorithm has."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rillflow.engines.contract import Engine
from rillflow.errors import BuildError
from rillflow.learning.config import AlgorithmConfig, replaced
from rillflow.learning.evaluation_settings import EVALUATION_SETTINGS, for_limits
from rillflow.learning.fault_settings import FAULT_SETTINGS
from rillflow.rl.multi_agent import MultiAgentWorkers
from rillflow.rl.workers import Workers
from rillflow.runs.callbacks import Callback, Callbacks
from rillflow.runs.job import Job
from rillflow.runs.limits import checked
from rillflow.runs.run_options import RunOptions
from rillflow.runs.saved_job import OWN_FLOW
from rillflow.runs.start_run import new_directory, start
from rillflow.runs.train import Told, Until
from rillflow.runs.training_run import TrainingRun
from rillflow.runs.warm_start import begin_with, told


def run(
    flow: Any,
    workers: Workers | MultiAgentWorkers,
    *,
    until: Until = None,
    seed: int = 0,
    engine: str | Engine = "local",
    init_from: Any = None,
    run_dir: str | Path | None = None,
    label: str | None = None,
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
    """Train with a flow of your own, as `train` does with that of an algorithm.

    >>> from rillflow.algorithms import a2c
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.train import TrainOneStep
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(a2c.Config(env="CartPole-v1", num_workers=2))
    >>> flow = ParallelRollouts(workers, mode="bulk_sync").for_each(TrainOneStep(workers))
    >>> run(flow, workers, until=2000, engine="sim").act([0.0, 0.0, 0.0, 0.0]).shape
    ()

    Args:
        flow: gives the results of training, as `TrainOneStep` and `ApplyGradients` do.
        workers: whose policy it trains; their settings are those of the run.
        until: as for `train`; so is what follows.
        seed: on `sim`, the same seed gives the same run.
        engine: where it runs.
        init_from: a policy to begin with.
        run_dir: the run's own directory; `rf.resume(run_dir, flow=flow, workers=workers)` goes on.
        label: what to call the run beside others, in plots and views.
        wait: False: train in a thread, and give the run back at once.
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
        settings: of evaluation and of faults, such as `eval_every` and `on_failure`; all others
            are those of the workers.
    """
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
    ).check(has_directory=run_dir is not None)
    job = job_of_flow(flow, workers, checked(until), seed, engine, settings)
    options.check_job(job)
    begin_with(workers, init_from)
    built = workers, flow
    directory = None
    if run_dir is not None:
        directory = new_directory(
            Path(run_dir), job, built, label=label, flow=OWN_FLOW, init_from=told(init_from)
        )
    return start(job, built, options, directory)


def job_of_flow(
    flow: Any,
    workers: Any,
    until: Mapping[str, float],
    seed: int,
    engine: str | Engine,
    settings: Mapping[str, Any],
) -> Job:
    """What there is to do, as a job: its settings are those of the workers."""
    if not isinstance(workers, Workers | MultiAgentWorkers):
        raise BuildError(
            f"rf.run(flow, workers) takes the workers whose policy the flow trains, found "
            f"{type(workers).__name__}: those of create_rollout_workers(Config(...))."
        )
    if not hasattr(flow, "run") or not hasattr(flow, "node"):
        raise BuildError(
            f"rf.run(flow, workers) takes a flow that gives the results of training, found "
            f"{type(flow).__name__}; for an algorithm by its name there is rf.train."
        )
    wrong = sorted(settings.keys() - {*EVALUATION_SETTINGS, *FAULT_SETTINGS})
    if wrong:
        raise BuildError(
            f"{', '.join(wrong)}: the settings of this run are those of its workers; give it to "
            "create_rollout_workers(Config(...)). Of evaluation and faults, rf.run takes "
            f"{', '.join((*EVALUATION_SETTINGS, *FAULT_SETTINGS))}."
        )
    config, agents = _settings(workers)
    config = for_limits(replaced(config, dict(settings)), until)
    config.validate()
    return Job(config.algorithm.name, config.algorithm, config, until, seed, engine, agents)


def _settings(
    workers: Workers | MultiAgentWorkers,
) -> tuple[AlgorithmConfig, dict[str, str] | None]:
    if isinstance(workers, Workers):
        return workers.config, None
    about = workers.config
    if not isinstance(about.policy_mapping, Mapping):
        raise BuildError(
            "a run keeps who acts with which policy: give policy_mapping as a dict from each "
            "agent to its policy."
        )
    first = next(iter(about.policies.values()))
    config = dataclasses.replace(
        first,
        env=about.env,
        env_config=about.env_config,
        num_workers=about.num_workers,
        num_envs_per_worker=about.num_envs_per_worker,
        rollout_fragment_length=about.rollout_fragment_length,
    )
    return config, dict(about.policy_mapping)
