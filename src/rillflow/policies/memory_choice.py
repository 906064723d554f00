"""Which memories there are, and what each knows of an environment."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from rillflow.errors import BuildError


def state_of(memory: str, size: int) -> tuple[int, ...]:
    """The shape of the state of one environment: of an lstm hidden on top of cell.

    >>> state_of("lstm", 8), state_of("gru", 8)
    ((2, 8), (8,))
    """
    return (2, size) if memory == "lstm" else (size,)


def check_memory(spec: Any) -> None:
    """Refuse a `PolicySpec` with a memory that there is not, or that has no place."""
    kinds = ("lstm", "gru")
    if spec.memory is not None and spec.memory not in kinds:
        near = get_close_matches(str(spec.memory), kinds, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise BuildError(f"memory must be one of lstm, gru, or None, got {spec.memory!r}{hint}")
    if spec.model == "lstm" and spec.memory == "gru":
        raise BuildError(
            "model='lstm' is an older way to write memory='lstm', found memory='gru' beside it: "
            "leave model out"
        )
    if spec.memory is not None and not isinstance(spec.model, str):
        raise BuildError(
            f"memory={spec.memory!r} goes above the built-in networks, found a network of your own:"
            " let it remember by itself (an attribute state_shape), or leave memory out"
        )
