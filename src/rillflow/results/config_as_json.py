"""The settings of a configuration as plain data, for run.json and for a policy's file."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from rillflow.learning.schedules import scheduled


def settings_of(config: Any) -> dict[str, Any]:
    """Every setting as JSON can hold it; of code, its name."""
    return {
        field.name: _described(getattr(config, field.name)) for field in dataclasses.fields(config)
    }


def _described(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_described(inner) for inner in value]
    if isinstance(value, dict):
        return {str(key): _described(inner) for key, inner in value.items()}
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}:{name}" if name else str(value)


def plain_settings(config: Any) -> dict[str, Any]:
    """The settings that JSON can hold as they are; code is left out, and is given again to load."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    values |= {name: str(schedule) for name, schedule in scheduled(config).items()}
    return {name: value for name, value in values.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
