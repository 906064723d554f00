"""A nested state as JSON and named arrays. Everything that JSON would change carries a tag.

    None, bool, str, list       themselves
    int, float                  themselves; {"$": "int"} beyond 64 bits, {"$": "float"} nan and inf
    dict                        itself, if its keys are strings and none of them is "$"
    other dicts                 {"$": "dict", "items": [[key, value], ...]}
    tuple                       {"$": "tuple", "items": [...]}
    NumPy array, bytes          {"$": "array" or "bytes", "name": of a tensor in the array files}
    NumPy scalar, complex       {"$": "scalar" or "complex", "hex": its bytes}
    a registered class          {"$": "value", "class": its name, "fields": {...}}

Everything is looked at before anything is written, so a state that cannot be saved costs nothing.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from rillflow.checkpoint import limits
from rillflow.checkpoint.arrays import Array, can_hold, to_tensor
from rillflow.checkpoint.errors import UnsavableState
from rillflow.checkpoint.registered_classes import Kind, kind_of
from rillflow.checkpoint.strict_json import excess, to_json

T = TypeVar("T")
_AS_THEY_ARE = frozenset({str, bool, type(None)})


@dataclass(frozen=True)
class Encoded:
    """A state ready to be written: JSON, and the arrays that it names."""

    json: bytes
    arrays: dict[str, Array]

    @property
    def bytes(self) -> int:
        """About what it takes on disk."""
        return len(self.json) + sum(array.nbytes for array in self.arrays.values())


def encode(state: Any) -> Encoded:
    """The state as JSON and arrays; `UnsavableState` names the first value that cannot be saved."""
    encoder = _Encoder()
    data = to_json(encoder.value(state))
    problem = excess(data)
    if problem is not None:
        raise UnsavableState(
            "", f"{problem[1]} where {problem[0]} are possible", "keep numbers in NumPy arrays"
        )
    return Encoded(data, encoder.arrays)


class _Encoder:
    """Walks a state, and remembers where it is for the error message."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._path: list[object] = []
        self._open: set[int] = set()
        self._known: dict[tuple[object, ...], dict[str, Any]] = {}
        self._handlers: dict[type, Callable[[Any], Any]] = {
            int: _int,
            float: _float,
            complex: lambda v: _hex("complex", struct.pack(">dd", v.real, v.imag)),
            list: self._list,
            tuple: lambda v: {"$": "tuple", "items": self._list(v)},
            dict: self._dict,
            bytes: self._bytes,
            np.ndarray: self._array,
        }

    def value(self, value: Any) -> Any:
        cls = type(value)
        if cls in _AS_THEY_ARE:
            return value
        handler = self._handlers.get(cls)
        if handler is not None:
            return handler(value)
        kind = kind_of(value)
        if kind is not None:
            return self._registered(kind, value)
        if isinstance(value, np.generic):
            return self._scalar(value)
        raise self._refuse(value)

    def _list(self, values: Any) -> list[Any]:
        return self._inside(values, lambda: [self._at(i, v) for i, v in enumerate(values)])

    def _dict(self, values: dict[Any, Any]) -> dict[str, Any]:
        if all(type(key) is str for key in values) and "$" not in values:
            return self._inside(values, lambda: {k: self._at(k, v) for k, v in values.items()})
        pairs = self._inside(
            values, lambda: [[self._at(k, k), self._at(k, v)] for k, v in values.items()]
        )
        return {"$": "dict", "items": pairs}

    def _registered(self, kind: Kind, value: Any) -> dict[str, Any]:
        fields = dict(zip(kind.fields, kind.take(value), strict=True))
        inner = self._inside(value, lambda: {k: self._at(k, v) for k, v in fields.items()})
        return {"$": "value", "class": kind.name, "fields": inner}

    def _array(self, array: Array) -> dict[str, Any]:
        if not can_hold(array.dtype):
            raise UnsavableState(
                self._where(),
                f"an array of type {array.dtype}",
                "save numbers, bools or text, and rows of several types as an array for each",
            )
        # the same memory is saved once: the weights that every worker was sent are one array
        memory = array.__array_interface__["data"][0]
        key = (memory, array.shape, array.strides, array.dtype.str, array.flags.writeable)
        if key not in self._known:
            tensor, note = to_tensor(array)
            self._known[key] = {"$": "array", "name": self._keep(tensor), **note}
        return self._known[key]

    def _bytes(self, value: bytes) -> dict[str, Any]:
        key = ("bytes", id(value))
        if key not in self._known:
            name = self._keep(np.frombuffer(value, np.uint8))
            self._known[key] = {"$": "bytes", "name": name}
        return self._known[key]

    def _scalar(self, value: np.generic) -> dict[str, Any]:
        if value.dtype.kind not in "biufcmM" or not can_hold(value.dtype):
            raise self._refuse(value)
        return {**_hex("scalar", value.tobytes()), "dtype": value.dtype.str}

    def _keep(self, tensor: Array) -> str:
        """Give an array its name: a number, and for people the end of its path in the state."""
        if len(self.arrays) >= limits.TENSORS:
            raise UnsavableState(
                self._where(), f"more than {limits.TENSORS:,} arrays", "stack arrays of one shape"
            )
        path = [re.sub(r"[^A-Za-z0-9_-]+", "_", str(part))[:40] or "_" for part in self._path[-6:]]
        name = ".".join([str(len(self.arrays)), *path])
        self.arrays[name] = tensor
        return name

    def _at(self, key: object, value: Any) -> Any:
        if type(value) in _AS_THEY_ARE:
            return value
        self._path.append(key)
        encoded = self.value(value)
        self._path.pop()
        return encoded

    def _inside(self, container: object, encode: Callable[[], T]) -> T:
        if id(container) in self._open:
            raise UnsavableState(self._where(), "a container inside itself", "break the circle")
        if len(self._open) >= limits.STATE_DEPTH:
            raise UnsavableState(
                self._where(), f"more than {limits.STATE_DEPTH} levels", "make the state flatter"
            )
        self._open.add(id(container))
        encoded = encode()
        self._open.discard(id(container))
        return encoded

    def _where(self) -> str:
        return "/".join(str(part) for part in self._path)

    def _refuse(self, value: object) -> UnsavableState:
        return UnsavableState(self._where(), *_explain(value))


def _int(value: int) -> Any:
    return value if -(2**63) <= value < 2**64 else {"$": "int", "hex": hex(value)}


def _float(value: float) -> Any:
    return value if math.isfinite(value) else _hex("float", struct.pack(">d", value))


def _hex(tag: str, data: bytes) -> dict[str, Any]:
    return {"$": tag, "hex": data.hex()}


def _explain(value: object) -> tuple[str, str]:
    """What was found, and the way out."""
    cls = type(value)
    name = f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")
    if isinstance(value, FunctionType) or (callable(value) and not isinstance(value, type)):
        label = getattr(value, "__qualname__", cls.__qualname__)
        return (
            f"the function {label}",
            "code is not saved: leave it out in get_state, and put it back in set_state",
        )
    if cls.__module__ == "torch" and hasattr(value, "numpy"):
        return f"a {name}", "save value.cpu().numpy() in get_state, and restore it in set_state"
    if hasattr(cls, "__dataclass_fields__") or hasattr(cls, "_fields"):
        return f"a {name}", f"let it be saved by its fields: checkpoint.register({cls.__name__})"
    if isinstance(value, int | float | str | bytes | list | tuple | dict):
        base = next(b.__name__ for b in cls.__mro__ if b.__module__ == "builtins")
        return f"a {name}", f"a subclass would come back as another type; save {base}(value)"
    return f"a {name}", "give what holds it get_state and set_state that use plain data"
