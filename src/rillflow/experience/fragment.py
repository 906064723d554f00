"""A fragment: some steps of some environments, as time-major columns [T, B, ...]."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rillflow.errors import RunError
from rillflow.experience.columns import Array

_ONE_NUMBER = ("rewards", "terminated", "truncated", "starts")
ENDS = ("terminated", "truncated")


def as_fragment(columns: Mapping[str, Array], *needed: str) -> tuple[dict[str, Array], int, int]:
    """The columns as arrays, and the numbers of steps and of environments that they all have."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise RunError(
            f"a fragment must have the columns {', '.join(needed)}; "
            f"missing {', '.join(missing)}, found {', '.join(sorted(arrays))}"
        )
    shape = next((array.shape[:2] for array in arrays.values()), ())
    if len(shape) != 2 or any(
        array.shape[:2] != shape or (name in _ONE_NUMBER and array.ndim != 2)
        for name, array in arrays.items()
    ):
        found = ", ".join(f"{name} {array.shape}" for name, array in sorted(arrays.items()))
        raise RunError(
            "all columns of a fragment must be of shape [T, B, ...], and "
            f"{', '.join(_ONE_NUMBER)} of shape [T, B]; found {found or 'no columns'}"
        )
    return arrays, shape[0], shape[1]


def flags(arrays: Mapping[str, Array], *names: str) -> NDArray[np.bool_]:
    """Where any of the named columns of a fragment is true; one that is not there never is."""
    found = np.zeros(next(iter(arrays.values())).shape[:2], np.bool_)
    for name in names:
        if name in arrays:
            found |= arrays[name].astype(np.bool_)
    return found
