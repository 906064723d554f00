"""Go on with a training run from its directory."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from rillflow.engines.contract import Engine
from rillflow.errors import BuildError
from rillflow.learning.config import RENAMED, AlgorithmConfig, replaced
from rillflow.learning.evaluation_settings import EVALUATION_SETTINGS, for_limits
from rillflow.learning.fault_settings import FAULT_SETTINGS
from rillflow.learning.suited_settings import AS_BEFORE
from rillflow.runs.callbacks import Callbacks
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.code_by_name import pointed_at
from rillflow.runs.directory import RunDirectory
from rillflow.runs.find_algorithm import find_algorithm
from rillflow.runs.finished import finished_already
from rillflow.runs.interrupts import Interrupts
from rillflow.runs.job import Job, Outcome, run_job
from rillflow.runs.listeners import Listener
from rillflow.runs.newest_policy import from_checkpoint, settings_to_act
from rillflow.runs.own_names import OwnCode
from rillflow.safety.consent import named_code, refusal, untrusted

OWN_FLOW = "own"
"""what run.json says of a run whose flow only its author can build again"""


def resume_job(
    directory: RunDirectory,
    *,
    until: Mapping[str, float] | None = None,
    engine: str | Engine | None = None,
    listeners: Iterable[Listener] = (),
    interrupts: Interrupts | None = None,
    checkpointer: Checkpointer | None = None,
    callbacks: Callbacks | None = None,
    num_workers: int | None = None,
    adopt: bool = False,
    trust: Collection[str] = (),
    **settings: Any,
) -> Outcome:
    """Train on from the newest checkpoint that is whole, with the run's own settings.

    Args:
        directory: of the run.
        until: other limits than those it began with.
        engine: another engine than the one it ran on.
        listeners: as in `run_job`.
        interrupts: as in `run_job`; by default they are heard here, while it lasts.
        checkpointer: how often to save; by default as `Checkpointer` does.
        callbacks: of the user's.
        num_workers: another number of workers than it began with.
        adopt: go on from a checkpoint of another run, if there is no checkpointer that says so.
        trust: code of one's own that the run's settings name and that may be imported.
        settings: of faults (`on_failure`, `max_restarts`, `worker_timeout`, `env_timeout`,
            `worker_memory`) and of evaluation (`eval_every`, `eval_episodes`, `eval_timeout`,
            `max_eval_failures`), from here on; others are the run's own.
    """
    wrong = settings.keys() - {*FAULT_SETTINGS, *EVALUATION_SETTINGS}
    if wrong:
        raise BuildError(f"a run goes on with its own {sorted(wrong)}; see `resume` for what may.")
    if num_workers is not None:
        settings["num_workers"] = num_workers
    job = job_of(directory, until, engine, settings, trust)
    with ExitStack() as stack:
        if checkpointer is None:
            checkpointer = stack.enter_context(Checkpointer(directory, adopt=adopt))
        checkpoint = checkpointer.newest()
        finished = finished_already(directory, checkpoint, job.until)
        if finished is not None:
            warnings.warn(finished, stacklevel=2)
            about = directory.about
            acting = settings_to_act(about, None, None)
            trained = from_checkpoint(checkpoint, about, acting)
            return Outcome(trained, "finished", "it was finished before")
        if interrupts is None:
            interrupts = stack.enter_context(Interrupts())
        return run_job(
            job,
            listeners=listeners,
            interrupts=interrupts,
            checkpointer=checkpointer,
            checkpoint=checkpoint,
            callbacks=callbacks,
        )


def job_of(
    directory: RunDirectory,
    until: Mapping[str, float] | None = None,
    engine: str | Engine | None = None,
    settings: Mapping[str, Any] | None = None,
    trust: Collection[str] = (),
) -> Job:
    """What a run's directory says it was asked to do, but for what is given here."""
    about = directory.about
    if about.get("flow") == OWN_FLOW:
        raise BuildError(
            f"{str(directory)!r} was trained by a flow of your own, which only you can build "
            f"again: in Python, rf.resume({str(directory)!r}, flow=flow, workers=workers)."
        )
    name = about["algorithm"]
    trust = [*trust, *OwnCode(directory.path).names]
    missing = untrusted(named_code(about["config"], name), trust)
    if missing:
        way_out = f"give trust={[*missing]!r}."
        raise BuildError(refusal(directory.path / "run.json", missing, way_out))
    module = find_algorithm(name)
    config = settings_from(module.Config, about["config"])
    if settings:
        config = replaced(config, settings)
        config.validate()
    limits = dict(about["until"] if until is None else until)
    return Job(
        name,
        module,
        for_limits(config, limits),
        limits,
        about["seed"],
        engine or about["engine"],
        about.get("agents"),
    )


_CODE = ("update", "prepare", "source", "model")
"""settings that name code"""


def settings_from(kind: type[AlgorithmConfig], saved: Mapping[str, Any]) -> AlgorithmConfig:
    """Settings as they were, from what `run.json` holds of them.

    Code is saved by name, `module:name`, and found again by it. Settings that this version does
    not know are refused: the run would not be the same one. Those that an earlier version took, and
    that are refused now because they are of no use, are left out: nothing ever came of them.
    """
    defaults = {field.name: field for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {**AS_BEFORE}
    for name, value in saved.items():
        if value is None and name in RENAMED:
            continue  # as version 0.1 said that the algorithm's own is used
        if isinstance(value, str) and ":" in value and name in _CODE:
            value = pointed_at(value)
        elif isinstance(value, list) and name in defaults:
            value = tuple(value)
        values[name] = value
    try:
        return kind.make(**values)
    except BuildError as error:
        # what is refused as of no use is named with its value: "lr_updates=7 is how long ..."
        useless = [name for name, value in values.items() if f"{name}={value!r} is " in str(error)]
        if not useless:
            raise
    return kind.make(**{name: value for name, value in values.items() if name not in useless})
