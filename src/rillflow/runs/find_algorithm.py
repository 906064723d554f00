"""An algorithm from whatever the user calls it by."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from rillflow.algorithms import NAMES, get_algorithm
from rillflow.errors import BuildError
from rillflow.learning.algorithm import Algorithm
from rillflow.runs.code_by_name import pointed_at


def find_algorithm(given: Any) -> Algorithm:
    """The algorithm that is meant.

    `given` is one of our names, `module:name`, an `Algorithm`, or a module with one in it.
    """
    if isinstance(given, str) and ":" not in given:
        return get_algorithm(given)
    found = pointed_at(given) if isinstance(given, str) else given
    if isinstance(found, Algorithm):
        return found
    module = found
    if isinstance(given, str) and not isinstance(found, ModuleType):
        module = import_module(given.partition(":")[0])
    inside = _inside(module)
    if len(inside) == 1:
        return inside[0]
    problem = "it is no Algorithm"
    if inside:
        names = ", ".join(algorithm.name for algorithm in inside)
        problem = f"it has several, {names}: name one, as module:NAME"
    raise BuildError(
        f"{given!r} does not name an algorithm ({problem}). It is one of {', '.join(NAMES)}, or an "
        "Algorithm(name, Config, modules, update, plan) of your own, or a module with one."
    )


def _inside(module: Any) -> list[Algorithm]:
    """The algorithms that a module makes, not those that it imports."""
    values = vars(module).values() if isinstance(module, ModuleType) else ()
    found = [value for value in values if isinstance(value, Algorithm)]
    own = [value for value in found if value.Config.__module__ == module.__name__]
    return own or found
