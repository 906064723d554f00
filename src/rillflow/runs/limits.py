"""When a run ends: the limits of `until`, checked, and compared with what it has reached."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Mapping
from typing import Any

from rillflow.errors import BuildError

LIMITS = {
    "return": "mean return of the last 100 episodes",
    "eval_return": "mean return of an evaluation, see --eval-every",
    "steps": "environment steps",
    "seconds": "seconds of training",
}
DEFAULT: dict[str, float] = {"steps": 100_000}
RETURNS = ("return", "eval_return")
"""limits that may be below 0"""
_OTHER_NAMES = {
    "reward": "return", "score": "return", "episode_reward_mean": "return", "timesteps": "steps",
    "timesteps_total": "steps", "total_timesteps": "steps", "time": "seconds",
    "time_total_s": "seconds", "evaluation": "eval_return", "eval_reward": "eval_return",
}  # fmt: skip


def checked(until: Any) -> dict[str, float]:
    """The limits, or an error that tells every wrong one; a number alone is one of steps.

    >>> checked(50_000), checked({"eval_return": 475})
    ({'steps': 50000}, {'eval_return': 475})
    """
    if until is None:
        return dict(DEFAULT)
    if _is_number(until):
        until = {"steps": until}
    if not isinstance(until, Mapping):
        raise BuildError(
            f"train: `until` is a number of steps, or a dict of limits, found {until!r}: "
            "until=50_000, or until={'return': 475, 'steps': 400_000}."
        )
    wrong = [] if until else ["it is empty, so training would never end"]
    for name, limit in until.items():
        if name not in LIMITS:
            wrong.append(unknown(str(name)))
        elif not _is_number(limit) or not allowed(name, limit):
            wrong.append(f"{name} must be {kind_of(name)}, got {limit!r}")
    if wrong:
        told = f"train: `until` takes some of {', '.join(LIMITS)}: {'; '.join(wrong)}"
        raise BuildError(told if told.endswith("?") else f"{told}.")
    return dict(until)


def unknown(name: str) -> str:
    """What to say of a limit that there is not."""
    near = difflib.get_close_matches(name, [*LIMITS, *_OTHER_NAMES], n=1)
    hint = f", did you mean {_OTHER_NAMES.get(near[0], near[0])!r}?" if near else ""
    return f"unknown limit {name!r}{hint}"


def allowed(name: str, limit: float) -> bool:
    """Whether a number can be this limit."""
    return name in RETURNS or limit > 0


def kind_of(name: str) -> str:
    """What a limit has to be, in words."""
    return "a number" if name in RETURNS else "a number above 0"


def reached(until: Mapping[str, float], row: Mapping[str, float]) -> list[str]:
    """The limits that a run has reached with this row.

    >>> reached({"return": 475, "steps": 1000}, {"return": 500.0, "episodes": 3, "steps": 1024})
    ['steps']

    The mean return of a few episodes says little, so it ends nothing before there are a hundred.
    """
    from rillflow.rl.metrics import WINDOW  # with NumPy: help on the command line needs it not

    few = row.get("episodes", 0) < WINDOW
    return [
        name
        for name, limit in until.items()
        if row.get(name, math.nan) >= limit and not (name == "return" and few)
    ]


def in_words(names: list[str]) -> str:
    """Why a run has ended that reached these limits."""
    goal = any(name in RETURNS for name in names)
    return "the goal is reached" if goal else f"the limit of {names[0]} is reached"


def _is_number(value: object) -> bool:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and math.isfinite(value)  # type: ignore[arg-type]
