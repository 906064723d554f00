"""How busy those are who make a run fast: environments, acting, the learner, the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from rillflow.scheduler.run import Run
    from rillflow.scheduler.stats import RunStats
    from rillflow.scheduler.times import TimeShare

_PARTS = {"environments": "environments", "policy": "acting"}
"""parts of sampling, as rollout workers tell them, and what they are called here"""
_samples: WeakKeyDictionary[Run[Any], Mapping[str, Any]] = WeakKeyDictionary()


def note_machine(run: Run[Any], sample: Mapping[str, Any]) -> None:
    """What the run's machine was seen to do last; see `machine_use.py`."""
    _samples[run] = sample


def machine_of(run: Run[Any]) -> Mapping[str, Any]:
    """That; empty if nobody has looked."""
    return _samples.get(run, {})


def busy(stats: RunStats, machine: Mapping[str, Any]) -> dict[str, float]:
    """Shares of the time: of all workers', of the learner's, of the GPUs'; only what there is.

    >>> from rillflow.scheduler.stats import RunStats
    >>> busy(RunStats(1.0, [], [], "", 0.0, {}), {"gpu": 40.0})
    {'gpu': 0.4}
    """
    told = {}
    for name, called in _PARTS.items():
        shares = [line.share for line in stats.times if line.part_of and line.name == name]
        if shares:
            told[called] = round(max(shares), 4)  # of several groups the busiest
    learning = [line.share for line in stats.times if _learns(line)]
    if learning:
        told["learner"] = round(min(1.0, max(learning)), 4)
    if machine.get("gpu") is not None:
        told["gpu"] = round(machine["gpu"] / 100, 4)
    return told


def busy_line(told: Mapping[str, float]) -> str:
    """The same in words; empty if there is nothing to say.

    >>> busy_line({"environments": 0.81, "acting": 0.125, "learner": 0.3, "gpu": 0.45})
    'busy: environments 81%, acting 12%, learner 30%, GPU 45%'
    """
    parts = [f"{'GPU' if name == 'gpu' else name} {share:.0%}" for name, share in told.items()]
    return f"busy: {', '.join(parts)}" if parts else ""


def _learns(line: TimeShare) -> bool:
    """A learner of its own, or the operator that learns in the driver."""
    own = line.name == "background(learner)" and line.kind == "operator"
    return own or (line.where == "driver" and "TrainOneStep" in line.name)
