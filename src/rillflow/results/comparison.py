"""How much better one group of runs is than another, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rillflow.results import statistics
from rillflow.results.learning_curves import Floats, Group, Run
from rillflow.run_labels import differences, settings_of_run, shown

FEW = 5
"""seeds, below which a bootstrap interval is mostly too narrow"""

_CHUNK = 1_000_000
"""numbers that are drawn at a time"""


@dataclass(frozen=True)
class Figure:
    """One figure of both sides; `low` and `high` hold the difference with 95% confidence."""

    name: str
    a: float
    b: float
    low: float = math.nan
    high: float = math.nan

    @property
    def difference(self) -> float:
        """How much more B has."""
        return self.b - self.a

    @property
    def verdict(self) -> str:
        """What the interval says: it is not known if that is not a number."""
        if math.isnan(self.low):
            return "unknown"
        return "B is higher" if self.low > 0 else "B is lower" if self.high < 0 else "undecided"


@dataclass(frozen=True)
class Comparison:
    """Two groups of runs of one environment."""

    a: Group
    b: Group
    figures: list[Figure] = field(default_factory=list)
    settings: list[tuple[str, str, str]] = field(default_factory=list)
    """those that differ: name, of A, of B"""

    @property
    def seeds(self) -> tuple[int, int]:
        """How many runs each side has."""
        return len(self.a.runs), len(self.b.runs)


def compare(a: Group, b: Group) -> Comparison:
    """The difference between two groups of runs, at the last step that all of them have reached.

    Runs are the samples: they are drawn again with replacement, on each side for itself, and the
    interval is that of the difference of the means (Efron 1979). Of a side with one run nothing is
    known about other seeds, so there is no interval.
    """
    runs = [*a.runs, *b.runs]
    figures = []
    begin, end = max(run.x[0] for run in runs), min(run.x[-1] for run in runs)
    if end >= begin:
        at = f"return at {end:,.0f} steps"
        figures.append(of_runs(at, a, b, lambda run: float(np.interp(end, run.x, run.y))))
    if end > begin:
        mean = f"mean return from {begin:,.0f} to there"
        grid = np.linspace(begin, end, 200)
        figures.append(of_runs(mean, a, b, lambda r: float(np.interp(grid, r.x, r.y).mean())))
    if all(len(run.evaluated) for run in runs):
        figures.append(of_runs("last evaluation", a, b, lambda run: float(run.evaluated[-1, 1])))
    reached = {run.path: _reached(run, a.goal) for run in runs} if a.goal == b.goal else {}
    if reached and not any(map(math.isnan, reached.values())):
        name = f"steps to a return of {a.goal:g}"
        figures.append(of_runs(name, a, b, lambda run: reached[run.path]))
    told = [settings_of_run(run.about) for run in (a.runs[0], b.runs[0])]
    return Comparison(a, b, figures, _settings(told))


def _reached(run: Run, goal: float | None) -> float:
    if goal is None or not (run.y >= goal).any():
        return math.nan
    return float(run.x[np.argmax(run.y >= goal)])


def of_runs(name: str, a: Group, b: Group, value: Callable[[Run], float]) -> Figure:
    """A figure that each run has one of."""
    ours, theirs = (np.asarray([value(run) for run in side.runs]) for side in (a, b))
    means = Figure(name, float(ours.mean()), float(theirs.mean()))
    if min(len(ours), len(theirs)) < 2:
        return means
    low, high = _interval(ours, theirs)
    return replace(means, low=low, high=high)


def _interval(a: Floats, b: Floats) -> tuple[float, float]:
    """The ends of the 95% bootstrap interval of the difference of two means."""
    rng = np.random.default_rng(0)
    ours, theirs = (_drawn_means(side, statistics.RESAMPLES, rng) for side in (a, b))
    return _ends(theirs - ours)


def _drawn_means(samples: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Means of as many samples as there are, drawn with replacement, so many times."""
    size = max(1, _CHUNK // len(samples))
    parts = [
        samples[rng.integers(len(samples), size=(min(size, count - begin), len(samples)))].mean(-1)
        for begin in range(0, count, size)
    ]
    found: Floats = np.concatenate(parts)
    return found


def of_episodes(a: Sequence[Floats], b: Sequence[Floats]) -> Figure:
    """The returns of episodes that were played with the policy of each run.

    Where a side has several runs they are drawn again too, and then episodes of each; of one run
    the interval is about that policy alone.
    """
    rng = np.random.default_rng(0)

    def drawn(side: Sequence[Floats]) -> Floats:
        chosen = rng.integers(len(side), size=(statistics.RESAMPLES, len(side)))
        means = np.empty(chosen.shape)
        for number, returns in enumerate(side):
            here = chosen == number
            means[here] = _drawn_means(returns, int(here.sum()), rng) if here.any() else 0.0
        return statistics.mean(means)

    low, high = _ends(drawn(b) - drawn(a))
    name = f"return of {sum(map(len, a)):,} and {sum(map(len, b)):,} greedy episodes"
    ours, theirs = (float(np.mean([own.mean() for own in side])) for side in (a, b))
    return Figure(name, ours, theirs, low, high)


def _ends(found: Floats) -> tuple[float, float]:
    tail = (1 - statistics.COVERAGE) / 2
    low, high = np.quantile(found, (tail, 1 - tail))
    return float(low), float(high)


def _settings(told: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    def value(settings: dict[str, Any], name: str) -> str:
        return shown(settings[name]) if name in settings else "absent"

    return [(name, value(told[0], name), value(told[1], name)) for name in differences(told)]
