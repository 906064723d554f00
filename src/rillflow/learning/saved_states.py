"""States of learners as they were saved: older ones are read, others refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rillflow.errors import RunError


def from_first_edition(state: Mapping[str, Any], acts: str) -> dict[str, Any]:
    """A learner's state as version 0.1 saved it, with one network, one target, one optimiser."""
    return {
        **state,
        "networks": {acts: state["weights"]},
        "targets": {acts: state["target"]} if "target" in state else {},
        "optimisers": {acts: state["optimizer"]},
        "updates": state["version"],
    }


def check_same_names(part: str, saved: Iterable[str], own: Iterable[str]) -> None:
    """Refuse the state of another algorithm."""
    if sorted(saved) != sorted(own):
        raise RunError(
            f"the saved {part} are {sorted(saved)}, but this algorithm's are {sorted(own)}: "
            "the state is that of another algorithm."
        )
