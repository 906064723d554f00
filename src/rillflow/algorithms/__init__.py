"""Algorithms, one file each: configuration, loss, plan. This is the registry."""

from __future__ import annotations

import difflib
from importlib import import_module
from types import ModuleType

from rillflow.errors import BuildError

NAMES = ("a2c", "a3c", "apex", "dqn", "pg", "ppo", "simple_q")


def get_algorithm(name: str) -> ModuleType:
    """The module of an algorithm: its `Config`, `plan` and losses."""
    key = name.lower().replace("-", "_")
    if key not in NAMES:
        near = difflib.get_close_matches(key, NAMES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise BuildError(f"unknown algorithm {name!r}; there are {', '.join(NAMES)}.{hint}")
    return import_module(f"rillflow.algorithms.{key}")
