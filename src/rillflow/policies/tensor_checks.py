"""What every loss checks at its door: kind of dtype, rank, shape, and range of its numbers.

Tensors are passed by keyword, so that a message can name the offender. A wrong dtype is a
`TypeError`; a wrong shape or number is a `ValueError`. Nothing here reads the data of a tensor,
so a check costs microseconds and never waits for a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

NOT_BROADCAST = "Nothing is broadcast, as that would hide a forgotten squeeze or transpose."


def check_floats(where: str, **tensors: Tensor) -> None:
    """Each tensor holds floating-point numbers."""
    for name, tensor in tensors.items():
        _check_is_tensor(where, name, tensor)
        if not tensor.is_floating_point():
            raise TypeError(
                f"{where}: {name} must be a floating-point tensor; found {tensor.dtype}. "
                f"Convert it with {name}.float()."
            )


def check_bools(where: str, **tensors: Tensor) -> None:
    """Each tensor is a boolean mask."""
    for name, tensor in tensors.items():
        _check_is_tensor(where, name, tensor)
        if tensor.dtype != torch.bool:
            raise TypeError(
                f"{where}: {name} must be a boolean tensor; found {tensor.dtype}. "
                f"Convert it with {name}.bool()."
            )


def check_ints(where: str, **tensors: Tensor) -> None:
    """Each tensor holds integers, such as discrete actions."""
    for name, tensor in tensors.items():
        _check_is_tensor(where, name, tensor)
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(
                f"{where}: {name} must be an integer tensor; found {tensor.dtype}. "
                f"Convert it with {name}.long()."
            )


def check_shape(where: str, shape: Sequence[int], of: str, **tensors: Tensor) -> None:
    """Each tensor has exactly this shape; `of` says in words what it comes from."""
    for name, tensor in tensors.items():
        if list(tensor.shape) != list(shape):
            raise ValueError(
                f"{where}: {name} must have the shape of {of}, {list(shape)}; "
                f"found {list(tensor.shape)}. {NOT_BROADCAST}"
            )


def check_same_shape(where: str, **tensors: Tensor) -> None:
    """All tensors have the shape of the first."""
    first, *others = tensors
    for name in others:
        if tensors[name].shape != tensors[first].shape:
            raise ValueError(
                f"{where}: {name} must have the shape of {first}, {list(tensors[first].shape)}; "
                f"found {list(tensors[name].shape)}. {NOT_BROADCAST}"
            )


def check_time_major(where: str, **tensors: Tensor) -> None:
    """All tensors are [T, B] with the same T >= 1 and B."""
    for name, tensor in tensors.items():
        if tensor.ndim != 2 or tensor.shape[0] < 1:
            raise ValueError(
                f"{where}: {name} must be time-major, [T, B] with T >= 1; "
                f"found {list(tensor.shape)}."
            )
    check_same_shape(where, **tensors)


def check_last_dim(where: str, **tensors: Tensor) -> None:
    """Each tensor has a last dimension of at least one entry, such as one per action."""
    for name, tensor in tensors.items():
        if tensor.ndim < 1 or tensor.shape[-1] < 1:
            raise ValueError(
                f"{where}: {name} must be [..., A] with A >= 1; found {list(tensor.shape)}."
            )


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


def _check_is_tensor(where: str, name: str, tensor: object) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"{where}: {name} must be a torch tensor; found {type(tensor).__name__}. "
            f"Convert it with torch.as_tensor({name})."
        )
