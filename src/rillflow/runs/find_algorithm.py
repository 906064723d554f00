"""An algorithm from whatever the user calls it by."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from rillflow.algorithms import NAMES, get_algorithm
from rillflow.errors import BuildError
from rillflow.learning.config import AlgorithmConfig
from rillflow.runs.code_by_name import pointed_at


def find_algorithm(given: Any) -> Any:
    """The module of an algorithm, or the object that stands for one.

    `given` is one of our names, `module:name`, or the module or object itself. A plan by itself,
    as `module:plan`, stands for the module it is in.
    """
    if isinstance(given, str) and ":" not in given:
        return get_algorithm(given)
    found = given
    if isinstance(given, str):
        found = pointed_at(given)
        if not hasattr(found, "Config"):
            found = import_module(given.partition(":")[0])
    config = getattr(found, "Config", None)
    fine = isinstance(config, type) and issubclass(config, AlgorithmConfig)
    if not fine or not callable(getattr(found, "plan", None)):
        raise BuildError(
            f"{given!r} is no algorithm: it is one of {', '.join(NAMES)}, or a module or object "
            "with a `Config` (a subclass of AlgorithmConfig) and a `plan(rollouts, workers)`."
        )
    return found


def own_functions(module: Any) -> dict[str, Callable[..., Any]]:
    """The `loss` and `postprocess` that the user's own algorithm brings along, as settings."""
    found = {name: getattr(module, name, None) for name in ("loss", "postprocess")}
    return {name: function for name, function in found.items() if callable(function)}
