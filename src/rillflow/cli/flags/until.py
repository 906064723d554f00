"""When to stop: `--until return=475 --until steps=400k`."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence

from rillflow.cli.output.error_messages import Usage

LIMITS = {
    "return": "mean return of the last 100 episodes",
    "steps": "environment steps",
    "seconds": "seconds of training",
}
DEFAULT: dict[str, float] = {"steps": 100_000}
_OTHER_NAMES = {
    "reward": "return", "score": "return", "episode_reward_mean": "return", "timesteps": "steps",
    "timesteps_total": "steps", "time": "seconds", "time_total_s": "seconds",
}  # fmt: skip
_SUFFIXES = {"k": 1e3, "m": 1e6}


def parse_until(given: Sequence[str]) -> dict[str, float]:
    """The limits; a run ends when it reaches any of them.

    >>> parse_until(["return=475", "steps=400k"])
    {'return': 475, 'steps': 400000}
    """
    found: dict[str, float] = {}
    wrong: list[str] = []
    for part in [part for text in given for part in text.split(",")]:
        name, equals, text = part.partition("=")
        name, number = name.strip(), _number(text)
        if not equals:
            wrong.append(f"{part!r} is not of the form name=number")
        elif name not in LIMITS:
            near = difflib.get_close_matches(name, [*LIMITS, *_OTHER_NAMES], n=1)
            hint = f", did you mean {_OTHER_NAMES.get(near[0], near[0])!r}?" if near else ""
            wrong.append(f"there is no limit {name!r}{hint}")
        elif number is None or (name != "return" and number <= 0):
            kind = "a number" if name == "return" else "a number above 0"
            wrong.append(f"{name} must be {kind}, got {text!r}")
        else:
            found[name] = number
    if wrong:
        raise Usage(
            f"--until: {'; '.join(wrong)} (limits are {', '.join(LIMITS)}, as in "
            "--until return=475 --until steps=400000)"
        )
    return found or dict(DEFAULT)


def _number(text: str) -> float | None:
    text = text.strip().lower()
    factor = _SUFFIXES.get(text[-1:], 1.0)
    try:
        value = float(text[:-1] if factor != 1.0 else text) * factor
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value
