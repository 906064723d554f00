"""What functions of tensors check at their door: the kind of dtype.

Tensors are passed by keyword, so that a message can name the offender. A wrong dtype is a
`TypeError`. `shape_checks` looks at shapes and numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor


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


def check_tensors(where: str, **tensors: Tensor) -> None:
    """Each is a tensor, whatever it holds."""
    for name, tensor in tensors.items():
        _check_is_tensor(where, name, tensor)


def _check_is_tensor(where: str, name: str, tensor: object) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"{where}: {name} must be a torch tensor; found {type(tensor).__name__}. "
            f"Convert it with torch.as_tensor({name})."
        )
