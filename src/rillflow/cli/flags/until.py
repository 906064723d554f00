"""When to stop: `--until return=475 --until steps=400k`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rillflow.cli.output.error_messages import Usage
from rillflow.runs.limits import DEFAULT, LIMITS, allowed, kind_of, unknown

_SUFFIXES = {"k": 1e3, "m": 1e6}
_STEPS = 1000
"""a number alone is one of steps; one below this is asked about, for it may be meant as a return"""


def parse_until(given: Sequence[str]) -> dict[str, float]:
    """The limits; a run ends when it reaches any of them. A number alone is one of steps.

    >>> parse_until(["return=475", "steps=400k"]), parse_until(["50k"])
    ({'return': 475, 'steps': 400000}, {'steps': 50000})
    """
    found: dict[str, float] = {}
    wrong: list[str] = []
    for part in [part for text in given for part in text.split(",")]:
        name, equals, text = part.partition("=")
        name, number = name.strip(), _number(text)
        if not equals:
            steps = _number(part)
            if steps is not None and steps >= _STEPS:
                found["steps"] = steps
            else:
                hint = "" if steps is None else f": steps={part}, or return={part}?"
                wrong.append(f"{part!r} is not of the form name=number{hint}")
        elif name not in LIMITS:
            wrong.append(unknown(name).replace("unknown limit", "there is no limit"))
        elif number is None or not allowed(name, number):
            wrong.append(f"{name} must be {kind_of(name)}, got {text!r}")
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
