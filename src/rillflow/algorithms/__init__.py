"""Algorithms, one file each: configuration, loss, plan. This is the registry."""

from __future__ import annotations

import difflib
from importlib import import_module
from types import ModuleType

from rillflow.errors import BuildError

NAMES = ("a2c", "a3c", "apex", "async_dqn", "dqn", "impala", "maml", "pg", "ppo", "simple_q")


def get_algorithm(name: str) -> ModuleType:
    """The module of an algorithm: its `Config`, `plan` and losses.

    Papers spell them in many ways: capitals, hyphens and underscores make no difference.

    >>> get_algorithm("Ape-X").__name__
    'rillflow.algorithms.apex'
    """
    known = {_spelling(known): known for known in NAMES}
    key = _spelling(name)
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f" Did you mean {known[near[0]]!r}?" if near else ""
        raise BuildError(f"unknown algorithm {name!r}; there are {', '.join(NAMES)}.{hint}")
    return import_module(f"rillflow.algorithms.{known[key]}")


def _spelling(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
