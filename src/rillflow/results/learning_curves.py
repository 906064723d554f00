"""Learning curves from run directories: read, grouped by what was run, and put on one grid."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.errors import BuildError
from rillflow.learning.did_you_mean import our_name
from rillflow.results import statistics
from rillflow.run_labels import places, settings_of_run, text
from rillflow.safety.bounded import read_json, regular_file

Floats = NDArray[np.float64]

_POINTS = 200
"""on the grid that the seeds of a group share"""
_ABOUT_BYTES = 16 << 20
_LINE_BYTES = 1 << 20
_NAMES = 1000
"""of figures that are told if those that were asked for are not there"""


class _NoCurveError(BuildError):
    """A run that has not got as far as the figures that are drawn."""


@dataclass(frozen=True)
class Run:
    """One run: what it was, and one curve."""

    path: Path
    env: str
    name: str
    """the algorithm, and the label if it has one"""
    goal: float | None
    """the return at which it was to stop"""
    x: Floats
    y: Floats
    evaluated: Floats = field(default_factory=lambda: np.empty((0, 2)))
    """where it was evaluated, and the mean returns there"""
    about: dict[str, Any] = field(default_factory=dict)
    """its run.json"""
    from_data: bool = False
    """whether nobody played to learn: the curve is that of its evaluations, a step is a row"""


@dataclass(frozen=True)
class Group:
    """Runs of the same thing with different seeds, or those that the user wants as one."""

    env: str
    name: str
    runs: list[Run] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    """of settings; one if the runs differ in their seed alone"""

    @property
    def goal(self) -> float | None:
        """The return at which they were to stop, if they agree."""
        goals = {run.goal for run in self.runs}
        return goals.pop() if len(goals) == 1 else None

    def mean(self) -> tuple[Floats, Floats, Floats, Floats]:
        """A grid, and on it the mean over the runs with its 95% bootstrap interval.

        The grid covers where all runs have values. Beyond the end of the shortest the mean would
        be that of fewer runs, and mostly of the slow ones: runs stop when they are good enough.
        """
        begin = max(run.x[0] for run in self.runs)
        end = min(run.x[-1] for run in self.runs)
        if end < begin:
            return (np.empty(0),) * 4
        grid = np.linspace(begin, end, _POINTS if end > begin else 1)
        values = np.stack([np.interp(grid, run.x, run.y) for run in self.runs], -1)
        low, high = statistics.interval(values, resamples=1000)
        return grid, statistics.mean(values), low, high

    @property
    def end(self) -> tuple[float, float]:
        """Where its label belongs: the last point of the mean, or of a run where there is none."""
        grid, mean, _, _ = self.mean()
        if len(grid):
            return float(grid[-1]), float(mean[-1])
        last = max(self.runs, key=lambda run: float(run.x[-1]))
        return float(last.x[-1]), float(last.y[-1])


def read_groups(
    run_dirs: Iterable[str | Path],
    x: str,
    y: str,
    *,
    labels: Sequence[str] = (),
    group_by: Sequence[str] = (),
) -> list[Group]:
    """The runs, grouped, in the order in which they came; see `plot_runs`."""
    paths = [Path(run_dir) for run_dir in run_dirs]
    if not paths:
        raise BuildError("plot: there is no run to plot; give at least one run directory.")
    if labels and len(labels) != len(paths):
        raise BuildError(
            f"plot: {len(labels)} labels for {len(paths)} runs: give one for each run, in the "
            "order of the runs, or none; those of one label are one line."
        )
    runs, labels = _with_curves(paths, labels, x, y)
    abouts = [{"algorithm": run.path.name, **run.about} for run in runs]
    _check_names(abouts, group_by)
    found = places(abouts, group_by, [run.path.name for run in runs])
    groups: dict[tuple[str, str], Group] = {}
    for number, (run, place) in enumerate(zip(runs, found, strict=True)):
        name = labels[number] if labels else place.name
        group = groups.setdefault((run.env, name), Group(run.env, name))
        group.runs.append(run)
        group.kinds.add(place.settings)
    return list(groups.values())


def _with_curves(
    paths: Sequence[Path], labels: Sequence[str], x: str, y: str
) -> tuple[list[Run], list[str]]:
    """The runs that have a curve, and their labels: others are left out, and that is said."""
    runs, kept = [], []
    bare: list[_NoCurveError] = []
    for path, label in itertools.zip_longest(paths, labels):
        try:
            runs.append(read_run(path, x, y))
            kept.append(label)
        except _NoCurveError as error:
            bare.append(error)
    if not runs:
        raise bare[0]
    for known in bare:
        why = str(known).removeprefix("plot: ").partition(";")[0].rstrip(".")
        warnings.warn(f"left out: {why}", stacklevel=4)
    return runs, kept if labels else []


def _check_names(abouts: Sequence[Mapping[str, Any]], group_by: Sequence[str]) -> None:
    known = {"algorithm", "label", "engine", "seed", "run"}
    settings = set[str]().union(*map(settings_of_run, abouts))
    for name in group_by:
        if name.removesuffix("_") not in settings | known:
            near = our_name(name, sorted(settings | known))
            hint = f"did you mean {near!r}?" if near else "`run.json` has the settings of a run."
            raise BuildError(f"plot: these runs have no setting {name!r} to group by; {hint}")


def read_run(path: Path, x: str, y: str) -> Run:
    """One run from `run.json` and `metrics.jsonl` in its directory."""
    about, metrics = _about(path / "run.json"), path / "metrics.jsonl"
    points, evaluated, from_data = _points_of(metrics, x, y)
    order = np.argsort(points[:, 0], kind="stable")
    # several rows at the same place (updates on one batch of steps): the newest says it best
    at = points[order, 0]
    newest = np.append(at[1:] != at[:-1], True)
    family = places([{"algorithm": path.name, **about}])[0].name
    until = about.get("until")
    goal = math.nan
    if isinstance(until, dict) and y in ("return", "eval_return"):
        goal = _number(until.get("return", until.get("eval_return")))
    return Run(
        path,
        text(about.get("env") or ""),
        family,
        None if math.isnan(goal) else goal,
        at[newest],
        points[order, 1][newest],
        evaluated[np.argsort(evaluated[:, 0], kind="stable")],
        about,
        from_data,
    )


def _points_of(metrics: Path, x: str, y: str) -> tuple[Floats, Floats, bool]:
    """A curve, beside returns of training those of evaluations, and whether these are all there is.

    Who learns from recorded data has no returns of training: evaluations are the curve.
    """
    none = np.empty((0, 2))
    if y != "return":
        return _points(metrics, x, y), none, False
    try:
        evaluated = _points(metrics, x, "eval_return")
    except BuildError:  # it has none
        return _points(metrics, x, y), none, False
    try:
        return _points(metrics, x, y), evaluated, False
    except BuildError:
        return evaluated, none, True


def _about(path: Path) -> dict[str, Any]:
    try:
        about = read_json(path, _ABOUT_BYTES)
    except FileNotFoundError:
        return {}  # the curve can be drawn without knowing whose it is
    except ValueError as error:
        raise BuildError(f"plot: {str(path)!r} is not JSON ({error}).") from None
    return about if isinstance(about, dict) else {}


def _points(path: Path, x: str, y: str) -> Floats:
    """What a file of metrics has of two figures, [rows, 2]; of its rows nothing else is kept."""
    found = array("d")
    known: set[str] = set()
    for row in _rows(path):
        # an evaluation is one of earlier weights: it belongs to their step
        of_weights = x == "steps" and is_evaluation(y)
        pair = _number(row.get("eval_steps" if of_weights else x)), _number(row.get(y))
        if not any(map(math.isnan, pair)):  # there is no return before the first hundred episodes
            found.extend(pair)
        if len(known) < _NAMES:
            known |= {name for name, value in row.items() if not math.isnan(_number(value))}
    if not found:
        what = f"; it has {', '.join(sorted(known))}." if known else ": its metrics.jsonl is empty."
        raise _NoCurveError(
            f"plot: {str(path.parent)!r} has no row with both {x!r} and {y!r}{what}"
        )
    return np.frombuffer(found).reshape(-1, 2)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of metrics, one after the other: it may be larger than the memory."""
    try:
        with regular_file(path) as (file, _):
            for number in itertools.count(1):
                line = file.readline(_LINE_BYTES + 1)
                if not line:
                    return
                try:
                    row = json.loads(line) if line.strip() else None
                except (ValueError, RecursionError):
                    if len(line) <= _LINE_BYTES and not file.read(1):
                        return  # the run is still writing it
                    raise BuildError(f"plot: line {number} of {str(path)!r} is not JSON.") from None
                if isinstance(row, dict):
                    yield row
    except (FileNotFoundError, NotADirectoryError):
        begun = (path.parent / "run.json").is_file()
        raise (_NoCurveError if begun else BuildError)(
            f"plot: there is no {str(path)!r}; a run directory has a metrics.jsonl."
        ) from None


def is_evaluation(name: str) -> bool:
    """Whether a figure is one of an evaluation, of one policy among several too."""
    return name.startswith("eval_") or "/eval_" in name


def _number(value: object) -> float:
    """A finite number; not a number for anything else."""
    fine = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if fine else math.nan  # type: ignore[arg-type]
