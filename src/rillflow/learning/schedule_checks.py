"""Settings of which some are schedules: which may be, and what is wrong with their numbers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rillflow.learning import schedules

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig


def may_be_schedule(field_: dataclasses.Field[Any], value: object) -> bool:
    """Whether a value is text in the place of a number."""
    return (
        isinstance(value, str) and "float" in str(field_.type) and not {":", "="}.isdisjoint(value)
    )


def problems_ever(settings: AlgorithmConfig) -> list[str]:
    """What is wrong with the numbers, at first and at every point of a schedule."""
    found = schedules.scheduled(settings)
    if not found:
        return settings.problems()
    kinds = type(settings).__mro__
    fixed = {name for kind in kinds for name in vars(kind).get("READ_ONCE", ())}
    wrong = [
        f"{name} is read once, when a run begins, so it cannot follow a schedule: give one number"
        for name in found
        if name in fixed
    ]
    if "lr" in found and settings.final_lr is not None:
        wrong.append("final_lr is for an lr that is one number; with a schedule leave it out")
    first = schedules.at_first(settings)
    for name, schedule in found.items():
        for value in schedule.values:
            if name == "lr" and value == 0:
                continue  # only a rate that is always 0 is given in vain
            wrong += schedules.with_values(first, {name: value}).problems()
    return wrong
