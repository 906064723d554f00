"""What to change to train faster, from where the time went. `benchmarks/advice.py` tries each."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Literal

from rillflow.scheduler.stats import RunStats

Bound = Literal["learner", "sampling", "message"]
_INTO = {"learner": "learning", "sampling": "sampling", "message": "messages and scheduling"}
_MORE = 4
"""times as large: what is paid once then serves four times as much"""
_SATURATED = 0.8
"""share of its time that a learner beside the driver works when nothing else limits it"""


@dataclass(frozen=True)
class Advice:
    """What limits a run, and settings that make it faster."""

    bound: Bound
    share: float
    """of the driver's time, or of its own"""
    what: str
    """the line that takes most of it"""
    why: str
    settings: dict[str, Any] = field(default_factory=dict)
    saturated: bool = False
    """it hardly ever rests, beside the driver: whatever that waits for, this is the limit"""

    def __str__(self) -> str:
        flags = " ".join(
            f"--{name.replace('_', '-')} {value}" for name, value in self.settings.items()
        )
        because = (
            f"{self.what} works {self.share:.0%} of the time."
            if self.saturated
            else f"{self.share:.0%} of the driver's time goes into {_INTO[self.bound]}, most of "
            f"it into {self.what}."
        )
        return f"{self.bound}-bound: {because}\nTo train faster, {self.why}: {flags}"


def advise(stats: RunStats, config: Any, cores: int | None = None) -> Advice:
    """A learner of its own that is always at work, or the largest share of the driver's time.

    Args:
        stats: of a run.
        config: the settings it ran with.
        cores: of the machine; by default of this one.
    """
    here = cores or os.cpu_count() or 1
    for line in stats.times:
        if line.name.startswith("background(") and line.share >= _SATURATED:
            why, settings = _learner(line.name, config, here)
            return Advice("learner", line.share, line.name, why, settings, saturated=True)
    shares: dict[Bound, list[tuple[float, str]]] = {"learner": [], "sampling": [], "message": []}
    for line in stats.times:
        if line.where != "driver" or line.part_of is not None:
            continue
        learner = line.kind == "operator" or "background(" in line.name
        bound: Bound = "learner" if learner else "message"
        if line.kind == "waiting" and not learner:
            bound = "sampling"
        shares[bound].append((line.share, line.name))
    totals = {bound: sum(share for share, _ in lines) for bound, lines in shares.items()}
    bound = max(totals, key=lambda one: totals[one])
    what = max(shares[bound], default=(0.0, "nothing"))[1]
    why, settings = {"learner": _learner, "sampling": _sampling, "message": _message}[bound](
        what, config, here
    )
    return Advice(bound, totals[bound], what, why, settings)


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
