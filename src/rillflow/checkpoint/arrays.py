"""NumPy arrays as named tensors and back, bit for bit: type, shape, memory order, read-only flag.

The memory order is kept because sums of floats depend on it, and the flag because code that
shares or copies an array looks at it: a resumed run has to take the same way.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.checkpoint import limits

Array = NDArray[Any]

NATIVE = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1",
    "BOOL": "|b1", "C64": "<c8",
}  # fmt: skip
"""types that safetensors files know, and their NumPy names"""
NAMES = {numpy_name: name for name, numpy_name in NATIVE.items()}
_OTHER = re.compile(
    r"[<>](?:f[248]|[iu][248]|c(?:8|16)|U[1-9][0-9]{0,5}|[mM]8(?:\[[0-9]{0,6}[a-zA-Z]{1,2}\])?)"
    r"|\|S[1-9][0-9]{0,5}",
    re.ASCII,
)
"""types that are saved as their bytes, with the name beside them"""


def can_hold(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this type can be saved: no objects, no records, nothing of one platform."""
    return dtype.str in NAMES or (dtype.names is None and bool(_OTHER.fullmatch(dtype.str)))


def to_tensor(array: Array) -> tuple[Array, dict[str, Any]]:
    """A C-contiguous array of a native type with the same bytes, and how to get back from it."""
    note: dict[str, Any] = {}
    axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    if axes != list(range(array.ndim)) and array.transpose(axes).flags.c_contiguous:
        note["axes"] = axes
        array = array.transpose(axes)
    if not array.flags.writeable:
        note["read_only"] = True
    tensor = np.asarray(array, order="C")
    if array.dtype.str not in NAMES:
        note["dtype"], note["shape"] = array.dtype.str, list(array.shape)
        tensor = as_bytes(tensor)
    return tensor, note


def as_bytes(array: Array) -> NDArray[np.uint8]:
    """The memory of a C-contiguous array as a vector of bytes, without a copy."""
    return array.reshape(-1).view(np.uint8)


def from_tensor(tensor: Array, note: dict[str, Any]) -> Array:
    """The reverse of `to_tensor`; `ValueError` says what is wrong with the note."""
    array = tensor
    if "dtype" in note:
        array = array.view(dtype_named(note["dtype"])).reshape(shape_of(note["shape"]))
    if "axes" in note:
        axes = note["axes"]
        if not isinstance(axes, list) or any(type(axis) is not int for axis in axes):
            raise ValueError("axes that are not a list of numbers")
        if sorted(axes) != list(range(array.ndim)):
            raise ValueError(f"axes {axes} of an array with {array.ndim} dimensions")
        array = array.transpose(np.argsort(axes))
    array.flags.writeable = not note.get("read_only", False)
    return array


def dtype_named(name: object) -> np.dtype[Any]:
    """A type by its NumPy name, if it is one of those that can be saved."""
    if not isinstance(name, str) or not (name in NAMES or _OTHER.fullmatch(name)):
        raise ValueError(f"the array type {str(name)[:40]!r}")
    try:
        return np.dtype(name)
    except TypeError as error:  # a unit of time that there is not
        raise ValueError(str(error)) from None


def shape_of(value: object) -> tuple[int, ...]:
    """A shape, if it is one that an array can have."""
    if not isinstance(value, list) or len(value) > limits.DIMENSIONS:
        raise ValueError("a shape that is not a list of at most 32 numbers")
    if any(type(n) is not int or n < 0 or n >= 1 << 62 for n in value):
        raise ValueError("a shape with something other than a size in it")
    if math.prod(n for n in value if n) >= 1 << 62:
        raise ValueError("a shape too large for any memory")
    return tuple(value)
