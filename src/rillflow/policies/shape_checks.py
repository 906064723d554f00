"""What functions of tensors or arrays check at their door: rank, shape, and range of numbers.

Both frameworks share these. Tensors and arrays are passed by keyword, so that a message can name
the offender. A wrong shape or number is a `ValueError`. Nothing here reads their data, so a check
costs microseconds and never waits for a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NOT_BROADCAST = "Nothing is broadcast, as that would hide a forgotten squeeze or transpose."


def check_shape(where: str, shape: Sequence[int], of: str, **arrays: Any) -> None:
    """Each array has exactly this shape; `of` says in words what it comes from."""
    for name, array in arrays.items():
        if list(array.shape) != list(shape):
            raise ValueError(
                f"{where}: {name} must have the shape of {of}, {list(shape)}; "
                f"found {list(array.shape)}. {NOT_BROADCAST}"
            )


def check_same_shape(where: str, **arrays: Any) -> None:
    """All arrays have the shape of the first."""
    first, *others = arrays
    for name in others:
        if arrays[name].shape != arrays[first].shape:
            raise ValueError(
                f"{where}: {name} must have the shape of {first}, {list(arrays[first].shape)}; "
                f"found {list(arrays[name].shape)}. {NOT_BROADCAST}"
            )


def check_time_major(where: str, **arrays: Any) -> None:
    """All arrays are [T, B] with the same T >= 1 and B."""
    for name, array in arrays.items():
        if array.ndim != 2 or array.shape[0] < 1:
            raise ValueError(
                f"{where}: {name} must be time-major, [T, B] with T >= 1; "
                f"found {list(array.shape)}."
            )
    check_same_shape(where, **arrays)


def check_last_dim(where: str, **arrays: Any) -> None:
    """Each array has a last dimension of at least one entry, such as one per action."""
    for name, array in arrays.items():
        if array.ndim < 1 or array.shape[-1] < 1:
            raise ValueError(
                f"{where}: {name} must be [..., A] with A >= 1; found {list(array.shape)}."
            )


def check_atoms(where: str, **arrays: Any) -> None:
    """Each array is [N, A, atoms]: of each row a distribution for each action."""
    for name, array in arrays.items():
        if array.ndim != 3 or array.shape[1] < 1 or array.shape[2] < 2:
            raise ValueError(
                f"{where}: {name} must be [N, A, atoms] with A >= 1 and at least 2 atoms; "
                f"found {list(array.shape)}."
            )


def check_support(where: str, v_min: float, v_max: float) -> None:
    """The least return of a distribution is below the largest."""
    if not v_min < v_max:
        raise ValueError(f"{where}: v_min must be below v_max; found {v_min!r} and {v_max!r}.")


def check_ensemble(where: str, **arrays: Any) -> None:
    """Each array is [K, N] with K >= 1: one row per member of an ensemble."""
    for name, array in arrays.items():
        if array.ndim != 2 or array.shape[0] < 1:
            raise ValueError(
                f"{where}: {name} must be [K, N], one row for each of K >= 1 members; "
                f"found {list(array.shape)}."
            )


def check_members(where: str, q: Any, **arrays: Any) -> None:
    """q is [N], or [K, N] of an ensemble; what all its members are compared with is [N]."""
    if q.ndim not in (1, 2):
        raise ValueError(f"{where}: q must be [N], or [K, N] of K members; found {list(q.shape)}.")
    check_shape(where, q.shape[-1:], "one member of q", **arrays)


def check_fraction(where: str, **numbers: float) -> None:
    """Each number is in [0, 1], such as a discount or a lambda."""
    for name, number in numbers.items():
        if not 0 <= number <= 1:
            raise ValueError(f"{where}: {name} must be in [0, 1]; found {number!r}.")


def check_positive(where: str, **numbers: float) -> None:
    """Each number is above zero, such as a clipping range."""
    for name, number in numbers.items():
        if not number > 0:
            raise ValueError(f"{where}: {name} must be above 0; found {number!r}.")


def check_not_negative(where: str, **numbers: float) -> None:
    """Each number is zero or above, such as a part of a scale."""
    for name, number in numbers.items():
        if not number >= 0:
            raise ValueError(f"{where}: {name} must be 0 or above; found {number!r}.")
