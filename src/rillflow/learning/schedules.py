"""Settings that change while a run goes on: values that stand where a number stands.

    ppo.Config(lr=Linear(3e-4, 0.0))                   # over the run: the steps of its `until`
    ppo.Config(clip_param=Linear(0.3, 0.1, steps=100_000))
    ppo.Config(entropy_coef=Piecewise((0, 0.01), (0.5, 0.01), (1, 0.0)))

As text, on the command line and in saved settings: `3e-4:0`, `0.3:0.1@100000` and
`0=0.01,0.5=0.01,1=0`. What an algorithm's `update` and `prepare` are given are plain numbers: those
of the moment.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from rillflow.errors import BuildError

C = TypeVar("C")

WRITTEN = "FIRST:LAST, FIRST:LAST@STEPS or 0=FIRST,0.5=NEXT,1=LAST@STEPS"


@dataclass(frozen=True)
class Schedule:
    """A number that moves in lines from point to point, and stays at the last.

    `Linear` and `Piecewise` make one.
    """

    points: tuple[tuple[float, float], ...]
    """parts of the way, from 0 to 1, each with the value there"""
    steps: int | None = None
    """how long the way is, in steps of the environments; None: as long as the run"""

    def __post_init__(self) -> None:
        numbers = [number for point in self.points for number in point]
        places = [place for place, _ in self.points]
        rising = all(a < b for a, b in pairwise(places))
        if not all(map(math.isfinite, numbers)) or places[:1] != [0] or places[-1:] != [1]:
            raise BuildError(f"a schedule has finite values from 0 to 1, got {self.points}.")
        if not rising:
            raise BuildError(f"the points of a schedule follow each other, got {self.points}.")
        if self.steps is not None and not self.steps >= 1:
            raise BuildError(f"a schedule lasts at least one step, got steps={self.steps!r}.")

    def at(self, steps: float) -> float:
        """The value after so many steps of the environments."""
        if self.steps is None:
            raise without_goal([])
        part = min(1.0, max(0.0, steps / self.steps))
        for (begin, value), (end, after) in pairwise(self.points):
            if part < end:
                return value + (part - begin) / (end - begin) * (after - value)
        return self.points[-1][1]

    @property
    def values(self) -> tuple[float, ...]:
        """At the points: all others lie in between."""
        return tuple(value for _, value in self.points)

    def over(self, steps: int) -> Schedule:
        """The same over so many steps, if nobody has said how many."""
        return self if self.steps is not None else dataclasses.replace(self, steps=steps)

    def times(self, factor: int) -> Schedule:
        """The same, counted in units of which there are so many in a step."""
        if self.steps is None:
            return self
        return dataclasses.replace(self, steps=self.steps * factor)

    def __str__(self) -> str:
        end = "" if self.steps is None else f"@{self.steps}"
        if len(self.points) == 2:
            return ":".join(f"{value!r}" for value in self.values) + end
        return ",".join(f"{place!r}={value!r}" for place, value in self.points) + end

    def __format__(self, form: str) -> str:
        return str(self)


def Linear(first: float, last: float, *, steps: int | None = None) -> Any:  # noqa: N802 - a value
    """From one number to another in a line, over so many steps, or over the run.

    >>> Linear(1.0, 0.0, steps=100).at(25)
    0.75
    >>> str(Linear(3e-4, 0.0))
    '0.0003:0.0'

    Its type is `Any`, because it stands where settings say `float`.
    """
    return Schedule(((0.0, float(first)), (1.0, float(last))), steps)


def Piecewise(*points: tuple[float, float], steps: int | None = None) -> Any:  # noqa: N802
    """In lines from point to point: parts of the way, from 0 to 1, each with its value.

    >>> falls = Piecewise((0, 1.0), (0.5, 0.1), (1, 0.0), steps=100)
    >>> falls.at(25), falls.at(50), falls.at(1000)
    (0.55, 0.1, 0.0)
    """
    if len(points) < 2:
        raise BuildError(f"Piecewise takes at least two points, (0, FIRST) and (1, LAST): {points}")
    return Schedule(tuple((float(place), float(value)) for place, value in points), steps)


def parse(text: str) -> Schedule:
    """A schedule from its text.

    >>> parse("3e-4:0@1e5")
    Schedule(points=((0.0, 0.0003), (1.0, 0.0)), steps=100000)
    """
    way, at, length = text.partition("@")
    try:
        steps = int(float(length)) if at else None
        if "=" in way:
            pairs = [part.split("=") for part in way.split(",")]
            made: Schedule = Piecewise(*((float(p), float(v)) for p, v in pairs), steps=steps)
            return made
        first, last = way.split(":")
        line: Schedule = Linear(float(first), float(last), steps=steps)
        return line
    except (ValueError, OverflowError):
        raise BuildError(f"a schedule is written {WRITTEN}; got {text!r}") from None


def divided(value: Any, shards: int) -> Any:
    """A number, or a schedule counted by one of so many shards that share the steps.

    >>> divided(Linear(0.4, 1.0, steps=100), 4).steps, divided(0.4, 4)
    (25, 0.4)
    """
    if not isinstance(value, Schedule) or value.steps is None:
        return value
    return dataclasses.replace(value, steps=-(-value.steps // shards))


# -- settings that have some ----------------------------------------------------------------------


def scheduled(settings: Any) -> dict[str, Schedule]:
    """The settings of a configuration that change, by name."""
    return {name: value for name, value in vars(settings).items() if isinstance(value, Schedule)}


def with_values(settings: C, values: Mapping[str, Any]) -> C:
    """The same settings but for these, which nobody checks."""
    made: C = object.__new__(type(settings))
    vars(made).update({**vars(settings), **values})
    return made


def at_first(settings: C) -> C:
    """The settings that a run begins with."""
    found = scheduled(settings)
    return with_values(settings, {n: s.values[0] for n, s in found.items()}) if found else settings


def over_run(settings: C, until: Mapping[str, float]) -> C:
    """The settings of a run that ends by these limits: its schedules know how long they last."""
    found = {name: s for name, s in scheduled(settings).items() if s.steps is None}
    if not found:
        return settings
    if "steps" not in until:
        raise without_goal(sorted(found))
    goal = max(1, int(until["steps"]))
    return with_values(settings, {name: s.over(goal) for name, s in found.items()})


def require_goal(settings: Any) -> None:
    """Refuse schedules that do not know how long they last."""
    open_ended = [name for name, s in scheduled(settings).items() if s.steps is None]
    if open_ended:
        raise without_goal(sorted(open_ended))


def without_goal(names: list[str]) -> BuildError:
    """The error for a schedule over a run of unknown length."""
    what = f"the schedule of {', '.join(names)}" if names else "a schedule"
    return BuildError(
        f"{what} lasts as long as the run, and nobody said how many steps that is: train until "
        "steps=N, or say its own, as in Linear(3e-4, 0.0, steps=100_000) or 3e-4:0@100000."
    )


class Scheduled:
    """The settings of a run at each moment; without a schedule, always the same."""

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        self._found = scheduled(settings)
        self._cached: tuple[float, Any] = (-1.0, settings)

    def __bool__(self) -> bool:
        return bool(self._found)

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def at(self, steps: float) -> Any:
        """The settings after so many steps, as plain numbers."""
        if self._found and self._cached[0] != steps:
            values = {name: one.at(steps) for name, one in self._found.items()}
            self._cached = steps, with_values(self._settings, values)
        return self._cached[1]

    def figures(self, settings: Any) -> dict[str, float]:
        """What is scheduled, by name, at that moment."""
        return {name: getattr(settings, name) for name in self._found}
