"""`rf.train`: an algorithm, an environment, when to stop; the run comes back, and acts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rillflow.algorithms import NAMES
from rillflow.engines.contract import Engine
from rillflow.errors import BuildError
from rillflow.learning.evaluation_settings import for_limits
from rillflow.results.trained import Trained as Trained
from rillflow.results.trained import TrainedAgents as TrainedAgents
from rillflow.runs.callbacks import Callback, Callbacks
from rillflow.runs.find_algorithm import find_algorithm
from rillflow.runs.job import Job
from rillflow.runs.limits import checked
from rillflow.runs.multi_agent import assigned, with_copies
from rillflow.runs.run_options import RunOptions
from rillflow.runs.start_run import new_directory, start
from rillflow.runs.training_run import TrainingRun as TrainingRun
from rillflow.runs.warm_start import begin_with, told

Until = Mapping[str, float] | float | None
Told = Callable[[dict[str, float]], None]


def train(
    algorithm: Any,
    env: Any = None,
    *,
    until: Until = None,
    seed: int = 0,
    engine: str | Engine = "local",
    policies: str | Mapping[str, str] | None = None,
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
    """Train until one of `until` is reached; the run comes back, and acts as its policy does.

    >>> run = train("ppo", "CartPole-v1", until=4000, engine="sim", num_workers=2)
    >>> run.act([0.0, 0.0, 0.0, 0.0]).shape, len(run.evaluate(3)), run.state
    ((), 3, 'finished')

    Ctrl-C finishes the update, saves, and gives the run back; a second one stops at once.

    Args:
        algorithm: a name, an `Algorithm` of your own, a module with one, or `module:name`.
        env: an id, a factory of environments, or `module:name`.
        until: when to stop: a number of steps, or some of `return` (mean of 100 episodes),
            `eval_return` (mean of an evaluation), `steps` and `seconds`, in a dict.
        seed: on `sim`, the same seed gives the same run.
        engine: where it runs.
        policies: for an environment with several agents: "shared" (one policy for all, the
            default), "each" (one for each agent), or a dict with the name of each agent's policy.
        init_from: a policy to begin with: a run's directory, a file, a run, or a policy.
        run_dir: the run's own directory, for what `rillflow train` writes; None: nothing is.
        label: what to call the run beside others, in plots and views.
        wait: False: train in a thread, and give the run back at once; see `run.wait()`.
        progress: whether it is shown; by default in a notebook, and on a terminal.
        view: show it in the browser while it goes on; `run.url` is the address.
        view_port: of the view; 0 is any that is free.
        tensorboard: write events for TensorBoard into the run's directory.
        wandb: report to Weights & Biases, in this project.
        checkpoint_seconds: between two checkpoints; None: not by time.
        checkpoint_steps: steps between two checkpoints; None: not by steps.
        keep: how many checkpoints to keep.
        record_every: steps between two films of an episode, in the run's directory.
        callbacks: functions called `on_result`, `on_episode`, `on_evaluation` or `on_checkpoint`,
            which hear of that and may end the run; see the page on evaluation and callbacks.
        on_result: the same for one function of any name; so are the next three.
        on_episode: called with each episode that ended.
        on_evaluation: called with each evaluation.
        on_checkpoint: called with each checkpoint that was written.
        on_progress: called with each row of the history; what it raises ends the run.
        settings: fields of the algorithm's `Config`, such as `num_workers`, `lr` and `model`.
    """
    limits = checked(until)
    if isinstance(env, str) and env in NAMES and algorithm not in NAMES:
        raise BuildError(f"the algorithm comes first: rf.train({env!r}, {algorithm!r}, ...).")
    module = find_algorithm(algorithm)
    # named or not: settings that suit the environment are those of its name
    settings["env"] = settings.get("env", module.Config.env) if env is None else env
    config = for_limits(module.Config.make(**settings), limits)
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
    agents = assigned(config, policies)
    config = with_copies(config, agents, settings)
    name = algorithm if isinstance(algorithm, str) else module.name
    job = Job(name, module, config, limits, seed, engine, agents)
    options.check_job(job)
    built = job.build()  # a mistake is told before anything is written
    begin_with(built[0], init_from)
    directory = None
    if run_dir is not None:
        more = {"label": label, "init_from": told(init_from)}
        directory = new_directory(Path(run_dir), job, built, **more)
    return start(job, built, options, directory)
