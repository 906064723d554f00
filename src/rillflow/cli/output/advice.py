"""What to change to train faster, from where the time went. `benchmarks/advice.py` tries each."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import Any

from rillflow.scheduler.bottleneck import Bound, DriverBound, driver_bound
from rillflow.scheduler.stats import RunStats

_INTO = {"learner": "learning", "sampling": "sampling", "message": "messages and scheduling"}
_MORE = 4
"""times as large: what is paid once then serves four times as much"""


@dataclass(frozen=True)
class Advice:
    """What limits a run, and settings that make it faster."""

    limit: DriverBound
    why: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        flags = " ".join(
            f"--{name.replace('_', '-')} {value}" for name, value in self.settings.items()
        )
        share, what = f"{self.limit.share:.0%}", self.limit.what
        because = (
            f"{what} works {share} of the time."
            if self.limit.saturated
            else f"{share} of the driver's time goes into {_INTO[self.bound]}, most of it into "
            f"{what}."
        )
        return f"{self.bound}-bound: {because}\nTo train faster, {self.why}: {flags}"

    @property
    def bound(self) -> Bound:
        """The kind of work that limits the run."""
        return self.limit.bound

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        told = {"why": self.why, "settings": self.settings, "text": str(self)}
        return {**asdict(self.limit), **told}


def advise(stats: RunStats, config: Any, cores: int | None = None) -> Advice:
    """Settings that help against what the time of a run goes into.

    Args:
        stats: of a run.
        config: the settings it ran with.
        cores: of the machine; by default of this one.
    """
    here = cores or os.cpu_count() or 1
    limit = driver_bound(stats.times)
    settle = {"learner": _learner, "sampling": _sampling, "message": _message}[limit.bound]
    why, settings = settle(limit.what, config, here)
    return Advice(limit, why, settings)


def _learner(what: str, config: Any, cores: int) -> tuple[str, dict[str, Any]]:
    if "Gradients" in what:  # an optimiser step for each answer of a worker
        envs = config.num_envs_per_worker * _MORE
        return "let each gradient be made from more rows", {"num_envs_per_worker": envs}
    minibatch = getattr(config, "sgd_minibatch_size", None)
    if minibatch is not None:
        why = "let the optimiser take fewer, larger steps; more workers will not help"
        return why, {"sgd_minibatch_size": minibatch * _MORE}
    batch = getattr(config, "train_batch_size", None)
    if batch is not None:
        why = "let the optimiser take fewer, larger steps; more workers will not help"
        return why, {"train_batch_size": batch * _MORE}
    why = "let each update be made from longer rollouts; more workers will not help"
    return why, {"rollout_fragment_length": config.rollout_fragment_length * _MORE}


def _sampling(what: str, config: Any, cores: int) -> tuple[str, dict[str, Any]]:
    if 0 < config.num_workers < cores:
        return f"use all {cores} cores", {"num_workers": cores}
    why = "let each call of policy and environments serve more of them"
    return why, {"num_envs_per_worker": config.num_envs_per_worker * _MORE}


def _message(what: str, config: Any, cores: int) -> tuple[str, dict[str, Any]]:
    longer = config.rollout_fragment_length * _MORE
    return "send fewer, larger messages", {"rollout_fragment_length": longer}
