"""`rf.train`: an algorithm, an environment, when to stop; a trained policy comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, overload

from rillflow.callables import label_of
from rillflow.engines.contract import Engine
from rillflow.errors import BuildError
from rillflow.learning.evaluation_settings import for_limits
from rillflow.results.config_as_json import settings_of
from rillflow.results.trained import Trained as Trained
from rillflow.results.trained import TrainedAgents as TrainedAgents
from rillflow.results.trained import load as load
from rillflow.runs.callbacks import Callback, Callbacks
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.directory import RunDirectory
from rillflow.runs.find_algorithm import find_algorithm
from rillflow.runs.job import Job, run_job
from rillflow.runs.limits import checked
from rillflow.runs.listeners import JsonlLogger, Listener, StatusWriter
from rillflow.runs.multi_agent import assigned, with_copies

Until = Mapping[str, float] | float | None
Told = Callable[[dict[str, float]], None]


@overload
def train(
    algorithm: Any,
    env: Any = None,
    *,
    until: Until = None,
    seed: int = 0,
    engine: str | Engine = "local",
    on_progress: Told | None = None,
    callbacks: Iterable[Callback] = (),
    on_result: Callback | None = None,
    on_episode: Callback | None = None,
    on_evaluation: Callback | None = None,
    on_checkpoint: Callback | None = None,
    run_dir: str | Path | None = None,
    policies: None = None,
    **settings: Any,
) -> Trained: ...
@overload
def train(
    algorithm: Any,
    env: Any = None,
    *,
    until: Until = None,
    seed: int = 0,
    engine: str | Engine = "local",
    on_progress: Told | None = None,
    callbacks: Iterable[Callback] = (),
    on_result: Callback | None = None,
    on_episode: Callback | None = None,
    on_evaluation: Callback | None = None,
    on_checkpoint: Callback | None = None,
    run_dir: str | Path | None = None,
    policies: str | Mapping[str, str],
    **settings: Any,
) -> TrainedAgents: ...
def train(
    algorithm: Any,
    env: Any = None,
    *,
    until: Until = None,
    seed: int = 0,
    engine: str | Engine = "local",
    on_progress: Told | None = None,
    callbacks: Iterable[Callback] = (),
    on_result: Callback | None = None,
    on_episode: Callback | None = None,
    on_evaluation: Callback | None = None,
    on_checkpoint: Callback | None = None,
    run_dir: str | Path | None = None,
    policies: str | Mapping[str, str] | None = None,
    **settings: Any,
) -> Trained | TrainedAgents:
    """Train until one of `until` is reached, and give the policy that came of it.

    >>> trained = train("ppo", "CartPole-v1", until=4000, engine="sim", num_workers=2)
    >>> trained.act([0.0, 0.0, 0.0, 0.0]).shape, len(trained.evaluate(3))
    ((), 3)

    Args:
        algorithm: a name, an `Algorithm` of your own, a module with one, or `module:name`.
        env: an id, a factory of environments, or `module:name`.
        until: when to stop: a number of steps, or some of `return` (mean of 100 episodes),
            `eval_return` (mean of an evaluation), `steps` and `seconds`, in a dict.
        seed: on `sim`, the same seed gives the same run.
        engine: where it runs.
        on_progress: called with each row of the history; what it raises ends the run.
        callbacks: functions called `on_result`, `on_episode`, `on_evaluation` or `on_checkpoint`,
            which hear of that and may end the run; see the page on evaluation and callbacks.
        on_result: the same for one function of any name; so are the next three.
        on_episode: called with each episode that ended.
        on_evaluation: called with each evaluation.
        on_checkpoint: called with each checkpoint that was written.
        run_dir: the run's own directory, for what `rillflow train` writes; None: nothing is.
        policies: for an environment with several agents: "shared" (one policy for all), "each"
            (one for each agent), or a dict with the name of each agent's policy.
        settings: fields of the algorithm's `Config`, such as `num_workers`, `lr`, `model`, `loss`.
    """
    limits = checked(until)
    module = find_algorithm(algorithm)
    # named or not: settings that suit the environment are those of its name
    settings["env"] = settings.get("env", module.Config.env) if env is None else env
    config = for_limits(module.Config.make(**settings), limits)
    events = {"on_result": on_result, "on_episode": on_episode}
    events |= {"on_evaluation": on_evaluation, "on_checkpoint": on_checkpoint}
    heard = Callbacks(callbacks, events)
    if heard.wants("on_checkpoint") and run_dir is None:
        raise BuildError(
            "on_checkpoint hears of checkpoints, and this run writes none: give it a directory, "
            "run_dir='runs/my-run'."
        )
    agents = assigned(config, policies, by_default=None)
    config = with_copies(config, agents, settings)
    job = Job("train", module, config, limits, seed, engine, agents)
    with ExitStack() as stack:
        checkpointer, listeners = None, list[Listener]()
        if run_dir is not None:
            directory = stack.enter_context(_directory(Path(run_dir), algorithm, job))
            checkpointer = stack.enter_context(Checkpointer(directory))
            status = StatusWriter(directory.path / "status.json")
            listeners = [JsonlLogger(directory.metrics), status]
        outcome = run_job(
            job, listeners=listeners, on_row=on_progress, checkpointer=checkpointer, callbacks=heard
        )
    trained: Trained | TrainedAgents = outcome.trained
    return trained


def _directory(path: Path, algorithm: Any, job: Job) -> RunDirectory:
    """A new directory for a run, as `rillflow train` makes it."""
    env = job.config.env
    return RunDirectory.create(
        path.parent,
        path.name,
        algorithm=algorithm if isinstance(algorithm, str) else job.module.name,
        env=env if isinstance(env, str) else label_of(env),
        engine=job.engine_name,
        seed=job.seed,
        config=settings_of(job.config),
        until=job.until,
        agents=job.agents,
    )
