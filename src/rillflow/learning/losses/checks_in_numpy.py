"""What losses in NumPy check at their door: the kind of dtype of their arrays, and one shape.

A primitive compares dtypes and shapes itself, in one line, and comes here with what differs from
float32 arrays of one shape: to be refused by name, or to be let through (float64, for tests).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.learning.tape import Array, Var, value_of
from rillflow.policies.shape_checks import check_same_shape

FLOAT, BOOL = np.dtype(np.float32), np.dtype(np.bool_)
NO_ARRAY = np.empty(0, object)
"""stands for what is no array: it has the dtype and shape of nothing that is accepted"""


def array_of(x: Any) -> Any:
    """The array of a var, or the array itself; anything else comes to be refused."""
    if type(x) is Var:
        x = x.value
    return x if type(x) is np.ndarray or hasattr(x, "dtype") else NO_ARRAY


def check_floats_alike(where: str, **arrays: Any) -> None:
    """All arrays hold floating-point numbers and have the shape of the first."""
    check_floats(where, **arrays)
    check_same_shape(where, **{name: value_of(array) for name, array in arrays.items()})


def check_floats(where: str, **arrays: Any) -> None:
    """Each array holds floating-point numbers."""
    _check_kind(where, "f", "a floating-point", "np.float32", arrays)


def check_bools(where: str, **arrays: Any) -> None:
    """Each array is a boolean mask."""
    _check_kind(where, "b", "a boolean", "bool", arrays)


def check_ints(where: str, **arrays: Any) -> None:
    """Each array holds integers, such as discrete actions."""
    _check_kind(where, "iu", "an integer", "np.int64", arrays)


def check_arrays(where: str, **arrays: Any) -> None:
    """Each is an array of numbers or booleans."""
    _check_kind(where, "fbiu", "an", "np.float32", arrays)


def check_mask(mask: Array, x: Array) -> None:
    """A mask holds booleans and has the shape of what it masks."""
    if type(mask) is np.ndarray and mask.dtype is BOOL and mask.shape == x.shape:
        return
    check_bools("masked_mean", mask=mask)
    check_same_shape("masked_mean", x=x, mask=mask)


def _check_kind(where: str, kinds: str, of: str, convert: str, arrays: dict[str, Any]) -> None:
    for name, array in arrays.items():
        x = value_of(array)
        if not isinstance(x, (np.ndarray, np.generic)):
            raise TypeError(
                f"{where}: {name} must be a NumPy array; found {type(x).__name__}. "
                f"Convert it with np.asarray({name})."
            )
        if x.dtype.kind not in kinds:
            raise TypeError(
                f"{where}: {name} must be {of} array; found {x.dtype}. "
                f"Convert it with {name}.astype({convert})."
            )
