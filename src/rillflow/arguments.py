"""Arguments that many functions take, checked where they are given."""

from __future__ import annotations

from operator import index
from pathlib import Path
from typing import Any

from rillflow.errors import BuildError


def is_count(value: object, least: int = 1) -> bool:
    """Whether something is a whole number from `least` on, also one of NumPy's; True is none.

    >>> is_count(3), is_count(0), is_count(True), is_count(2.0)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return False
    given: Any = value
    try:
        return index(given) >= least
    except TypeError:  # an array of several
        return False


def check_count(name: str, value: object, least: int = 1) -> None:
    """Refuse what is not a whole number from `least` on.

    >>> check_count("episodes", 0)
    Traceback (most recent call last):
    rillflow.errors.BuildError: episodes must be a whole number of at least 1, got 0.
    """
    if not is_count(value, least):
        raise BuildError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def path_ending_in(path: str | Path, endings: tuple[str, ...], what: str) -> Path:
    """The path, if its ending says how to write it."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        raise BuildError(f"{what} is written as {' or '.join(endings)}, found {str(path)!r}.")
    return path
