"""Go on with a training run from its directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from rillflow.engines.contract import Engine
from rillflow.rl.config import AlgorithmConfig
from rillflow.runs.algorithm import find_algorithm
from rillflow.runs.directory import RunDirectory
from rillflow.runs.interrupts import Interrupts
from rillflow.runs.job import Job, Outcome, run_job
from rillflow.runs.keeper import Keeper
from rillflow.runs.listeners import Listener
from rillflow.runs.names import pointed_at


def resume(
    directory: RunDirectory,
    *,
    until: Mapping[str, float] | None = None,
    engine: str | Engine | None = None,
    listeners: Iterable[Listener] = (),
    interrupts: Interrupts | None = None,
    keeper: Keeper | None = None,
) -> Outcome:
    """Train on from the newest checkpoint that is whole, with the run's own settings.

    Args:
        directory: of the run.
        until: other limits than those it began with.
        engine: another engine than the one it ran on.
        listeners: as in `run_job`.
        interrupts: as in `run_job`.
        keeper: how often to save; by default as `Keeper` does.
    """
    job = job_of(directory, until, engine)
    keeper = keeper or Keeper(directory)
    checkpoint = keeper.newest()
    return run_job(
        job, listeners=listeners, interrupts=interrupts, keeper=keeper, checkpoint=checkpoint
    )


def job_of(
    directory: RunDirectory,
    until: Mapping[str, float] | None = None,
    engine: str | Engine | None = None,
) -> Job:
    """What a run's directory says it was asked to do."""
    about = directory.about
    name = about["algorithm"]
    module = find_algorithm(name)
    return Job(
        name,
        module,
        settings_from(module.Config, about["config"]),
        dict(about["until"] if until is None else until),
        about["seed"],
        engine or about["engine"],
        about.get("agents"),
    )


def settings_from(kind: type[AlgorithmConfig], saved: Mapping[str, Any]) -> AlgorithmConfig:
    """Settings as they were, from what `run.json` holds of them.

    Code is saved by name, `module:name`, and found again by it. Settings that this version does
    not know are refused: the run would not be the same one.
    """
    defaults = {field.name: field for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for name, value in saved.items():
        if isinstance(value, str) and ":" in value and name in ("loss", "postprocess", "model"):
            value = pointed_at(value)
        elif isinstance(value, list) and name in defaults:
            value = tuple(value)
        values[name] = value
    return kind.make(**values)
