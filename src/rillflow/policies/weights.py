"""Weights travel as arrays under the names of a network's parameters; here they are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from rillflow.errors import RunError

SHOWN = 8
"""differences spelled out in a message; a wrong network differs everywhere"""


def check_weights(
    given: Mapping[str, NDArray[Any]],
    expected: Mapping[str, tuple[int, ...]],
    needed: Iterable[str] | None = None,
) -> None:
    """The weights have the names and shapes of the network, or an error lists the differences.

    Args:
        given: the weights that arrived.
        expected: names and shapes of the network's parameters.
        needed: names that may not be missing; by default all of them.
    """
    problems = [
        f"missing {name} {list(expected[name])}"
        for name in (expected if needed is None else needed)
        if name not in given
    ]
    for name, array in given.items():
        if name not in expected:
            problems.append(f"unknown {name} {list(array.shape)}")
        elif tuple(array.shape) != tuple(expected[name]):
            problems.append(f"{name}: expected {list(expected[name])}, found {list(array.shape)}")
    if not problems:
        return
    more = f"\n  ... and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    lines = "".join(f"\n  {problem}" for problem in problems[:SHOWN])
    raise RunError(
        f"these weights belong to another network:{lines}{more}\n"
        "build both sides from equal specs (spaces, hidden, model, head)"
    )
