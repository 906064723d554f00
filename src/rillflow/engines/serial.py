"""Values as bytes: one pickle and its arrays beside it, so that arrays are never copied twice.

Only code and data of the same run travel this way, between a driver and the actors it started;
nothing of it is ever written to a file or read from one.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle

from rillflow.types import Ref

Buffer = bytes | bytearray | memoryview


@dataclass(slots=True)
class Packed:
    """A value as bytes: the pickle, and the raw buffers of its arrays."""

    body: Buffer
    buffers: Sequence[Buffer]

    @property
    def nbytes(self) -> int:
        """Bytes in all."""
        if not self.buffers:
            return len(self.body)
        return len(self.body) + sum(len(buffer) for buffer in self.buffers)


def pack(value: Any, *, by_value: bool = True) -> Packed:
    """Serialise; the buffers are views of the value's own memory.

    `by_value` ships classes of `__main__` along (towards actors); without it, and for plain data,
    the quick pickler is tried first.
    """
    views: list[pickle.PickleBuffer] = []
    body: bytes | None = None
    if not by_value or _plain(value, 3):
        try:
            body = _quickly(value, views)
        except Exception:  # a class that was shipped by value has to travel back by value
            views.clear()
    if body is None:
        stream = io.BytesIO()
        cloudpickle.Pickler(stream, 5, buffer_callback=views.append).dump(value)
        body = stream.getvalue()
    return Packed(body, [view.raw() for view in views])


def _quickly(value: Any, views: list[pickle.PickleBuffer]) -> bytes:
    if "numpy" not in sys.modules:  # then there are no arrays, and an actor may do without it
        return pickle.dumps(value, 5, buffer_callback=views.append)
    from rillflow.engines.arrays import ArrayPickler

    stream = io.BytesIO()
    ArrayPickler(stream, views).dump(value)
    return stream.getvalue()


_ATOMS = frozenset({int, float, bool, str, bytes, type(None)})
_BATCHES = "rillflow.batch"
"""mappings to arrays, whose classes every process knows"""
_VECTORS = "rillflow.named_vector"
"""the same, but one array inside, which nobody changes"""


def _plain(value: Any, depth: int) -> bool:
    """Whether a value has no class that the other side might not know."""
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind is tuple or kind is list:
        return depth > 0 and all(_plain(v, depth - 1) for v in value)
    if kind is dict:
        return depth > 0 and all(type(k) is str and _plain(v, depth - 1) for k, v in value.items())
    if kind.__module__ == _BATCHES:
        return depth > 0 and all(_plain(v, depth - 1) for v in value.values())
    if kind.__module__ == _VECTORS:
        return True
    return kind.__module__ == "numpy" and not value.dtype.hasobject


def unpack(packed: Packed) -> Any:
    """The value; its arrays are read-only views of the buffers."""
    return pickle.loads(packed.body, buffers=packed.buffers)


class PackedRef(Ref):
    """A value held as bytes: read when needed, forwarded as it is."""

    __slots__ = ("packed",)

    def __init__(self, packed: Packed) -> None:
        self.packed = packed

    @staticmethod
    def of(value: Any, *, by_value: bool = True) -> PackedRef:
        """Serialise a value and cut every tie to its memory."""
        packed = pack(value, by_value=by_value)
        return PackedRef(Packed(packed.body, [bytes(buffer) for buffer in packed.buffers]))

    def get(self) -> Any:
        return pickle.loads(self.packed.body, buffers=self.packed.buffers)


class ValueRef(Ref):
    """A value that stays in this process, between the driver and its own threads."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self) -> Any:
        return self.value


def lend(value: Any, *, copy: bool = False) -> Ref:
    """For an actor in this process: arrays are read-only over there, and not copied unless asked.

    It costs a fraction of a pickle, and who gets it cannot tell the difference.
    """
    try:
        return ValueRef(_lent(value, copy))
    except TypeError:  # what it is made of is not known here
        return PackedRef.of(value, by_value=False)


def _lent(value: Any, copy: bool) -> Any:
    kind = type(value)
    if kind in _ATOMS or kind.__module__ == _VECTORS:
        return value
    if kind is dict or kind.__module__ == _BATCHES:
        return kind({name: _lent(part, copy) for name, part in value.items()})
    if kind is list or kind is tuple:
        return kind([_lent(part, copy) for part in value])
    if kind.__module__ != "numpy" or kind.__name__ != "ndarray" or value.dtype.hasobject:
        raise TypeError(kind)
    if not (copy or value.flags.writeable):
        return value
    lent = value.copy() if copy else value.view()
    lent.flags.writeable = False
    return lent
