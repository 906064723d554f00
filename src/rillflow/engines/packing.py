"""Values on their way to an actor and back: a layout, and the raw bytes of what fills it.

The layout of a value is everything about it but its numbers: which containers, which names, which
dtypes and shapes. A layout is a small tuple of plain data, so that two sides can agree on one and
send only its number afterwards (`local_wire.py`). Parts are the bytes of the arrays.

    an array                ("array", dtype, shape)
    a dict                  ("dict", names, layouts)
    a list or tuple         ("list", layouts) or ("tuple", layouts)
    numbers, strings, None  ("plain",): together they are one part, in the order of the walk
    a class that ships      ("ship", module, name, fixed, layout)
    anything else           ("pickle",): the whole value is pickled, its arrays are parts

A class *ships* by two methods: `__ship__()` gives `(fixed, value)`, plain data that belongs to the
layout and a value of the kinds above; `__unship__(fixed, value)`, called on the class, makes the
object anew.

Arrays of every kind are read-only when they are unpacked. Only code and data of the same run travel
this way, between a driver and the actors that it started; no file is ever read like this.
"""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle

from rillflow.types import Ref

Layout = tuple[Any, ...]
Buffer = bytes | bytearray | memoryview

QUICK = 2
"""the version of `marshal` that looks for no object twice: it takes two thirds of the time"""
PICKLED: Layout = ("pickle",)
_PLAIN: Layout = ("plain",)
_ATOMS = frozenset({int, float, bool, str, bytes, type(None), complex})
_NUMBERS = frozenset("biufc")
"""kinds of dtypes that are all in their name"""
_DEEP = 6
"""containers in containers; what goes deeper is pickled"""


_ndarray: Any = None
"""NumPy's class of arrays; an actor that never meets an array need not import NumPy"""
_dtypes: dict[str, Any] = {}
"""dtypes by their names, as far as they have come by"""
_names: dict[Any, str] = {}
"""names of dtypes of numbers, as far as they have come by"""
SMALL = 64 * 1024
"""bytes of a value that is copied to be sent; a larger one is written to shared memory"""


def _load_numpy() -> None:
    global _ndarray
    from numpy import ndarray

    _ndarray = ndarray


def _array(buffer: Buffer, name: str, shape: tuple[int, ...]) -> Any:
    """The array over the buffer's own memory, read-only as that is."""
    dtype = _dtypes.get(name)
    if dtype is None:
        from numpy import dtype as make

        _load_numpy()
        dtype = _dtypes[name] = make(name)
    return _ndarray(shape, dtype, buffer)


class Unknown(Exception):  # noqa: N818 - a signal between the functions of this file
    """A value, or a part of it, has no layout."""


class PackedRef(Ref):
    """A value as bytes: unpacked by whoever reads it, forwarded as it is."""

    __slots__ = ("layout", "parts")

    def __init__(self, layout: Layout, parts: list[Any]) -> None:
        self.layout = layout
        self.parts = parts
        """bytes; or, until `detached`, memory of the value itself"""

    @property
    def nbytes(self) -> int:
        """Bytes of all parts together."""
        return sum([len(p) if type(p) is bytes else memoryview(p).nbytes for p in self.parts])

    @staticmethod
    def of(value: Any, *, by_value: bool = True) -> PackedRef:
        """Serialise a value and cut every tie to its memory."""
        return pack(value, by_value=by_value).detached()

    def detached(self) -> PackedRef:
        """This reference, once its parts are bytes that share no memory with the value."""
        parts = self.parts
        for index, part in enumerate(parts):
            if type(part) is not bytes:
                parts[index] = part.tobytes()
        return self

    def get(self) -> Any:
        layout = self.layout
        if layout[0] == "array":
            dtype = _dtypes.get(layout[1])
            if dtype is not None:  # the usual item, without further ado
                return _ndarray(layout[2], dtype, self.parts[0])
        elif layout[0] == "plain":
            return marshal.loads(self.parts[0])[0]
        return unpack(layout, self.parts)


class ValueRef(Ref):
    """A value that stays in this process, between the driver and the actors that live in it."""

    __slots__ = ("value",)
    nbytes = 0

    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self) -> Any:
        return self.value


# -- packing ---------------------------------------------------------------------------------------


def pack(value: Any, *, by_value: bool = True) -> PackedRef:
    """Serialise a value; parts may be memory of the value, until they are `detached`.

    `by_value` ships classes of `__main__` along (towards actors); without it the quick pickler is
    tried first.
    """
    kind = type(value)
    if kind is _ndarray:
        name = _names.get(value.dtype)
        if name is not None and value.nbytes <= SMALL:  # the usual item, without further ado
            return PackedRef(("array", name, value.shape), [value.tobytes()])
    elif kind in _ATOMS:
        return PackedRef(_PLAIN, [marshal.dumps([value], QUICK)])
    parts: list[Any] = []
    plain: list[Any] = []
    if _ndarray is None and "numpy" in sys.modules:
        _load_numpy()
    try:
        layout = _layout(value, parts, plain, _DEEP)
        if plain:
            parts.append(marshal.dumps(plain, QUICK))
    except (Unknown, ValueError):  # ValueError: marshal refuses subclasses of int and str
        return _pickled(value, by_value)
    return PackedRef(layout, parts)


def _layout(value: Any, parts: list[Any], plain: list[Any], deep: int) -> Layout:
    kind = type(value)
    if kind in _ATOMS:
        plain.append(value)
        return _PLAIN
    if kind is _ndarray:
        dtype = value.dtype
        name = _names.get(dtype)
        if name is None:
            if dtype.kind not in _NUMBERS:
                raise Unknown
            name = _names[dtype] = dtype.str
        parts.append(value if value.flags.c_contiguous else value.copy(order="C"))
        return ("array", name, value.shape)
    if deep == 0:
        raise Unknown
    if kind is dict:
        names = tuple(value)
        if not {str}.issuperset(map(type, names)):
            raise Unknown
        return ("dict", names, tuple([_layout(v, parts, plain, deep - 1) for v in value.values()]))
    if kind is tuple or kind is list:
        inner = tuple([_layout(v, parts, plain, deep - 1) for v in value])
        return ("tuple" if kind is tuple else "list", inner)
    ship = getattr(kind, "__ship__", None)
    if ship is None or kind.__module__ == "__main__":
        raise Unknown
    fixed, inside = ship(value)
    layout = _layout(inside, parts, plain, deep - 1)
    return ("ship", kind.__module__, kind.__qualname__, fixed, layout)


def _pickled(value: Any, by_value: bool) -> PackedRef:
    views: list[pickle.PickleBuffer] = []
    body: bytes | None = None
    if not by_value:
        try:
            body = _dumped(value, views, "ArrayPickler", pickle.Pickler)
        except Exception:  # a class that was shipped by value has to travel back by value
            views.clear()
    if body is None:
        body = _dumped(value, views, "ArrayCloudPickler", cloudpickle.Pickler)
    return PackedRef(PICKLED, [body, *[view.raw() for view in views]])


def _dumped(value: Any, views: list[pickle.PickleBuffer], with_arrays: str, without: Any) -> bytes:
    """A pickle, with buffers beside it; arrays of every kind arrive read-only."""
    pickler = without
    if "numpy" in sys.modules:  # else there are no arrays, and an actor may do without NumPy
        from rillflow.engines import packing_arrays

        pickler = getattr(packing_arrays, with_arrays)
    stream = io.BytesIO()
    pickler(stream, 5, buffer_callback=views.append).dump(value)
    return stream.getvalue()


# -- unpacking -------------------------------------------------------------------------------------


def unpack(layout: Layout, parts: Sequence[Buffer]) -> Any:
    """The value; its arrays are read-only views of the parts."""
    kind = layout[0]
    if kind == "array":
        return _array(parts[0], layout[1], layout[2])
    if kind == "pickle":
        return pickle.loads(parts[0], buffers=parts[1:])
    rest = list(parts)
    plain = marshal.loads(rest.pop()) if _has_plain(layout) else ()
    return _fill(layout, iter(rest), iter(plain))


def _has_plain(layout: Layout) -> bool:
    kind = layout[0]
    if kind == "array":
        return False
    if kind == "plain":
        return True
    return any(map(_has_plain, (layout[4],) if kind == "ship" else layout[-1]))


def _fill(layout: Layout, parts: Iterator[Buffer], plain: Iterator[Any]) -> Any:
    kind = layout[0]
    if kind == "array":
        return _array(next(parts), layout[1], layout[2])
    if kind == "plain":
        return next(plain)
    if kind == "dict":
        filled = [_fill(inner, parts, plain) for inner in layout[2]]
        return dict(zip(layout[1], filled, strict=True))
    if kind == "ship":
        inside = _fill(layout[4], parts, plain)
        return _class(layout[1], layout[2]).__unship__(layout[3], inside)
    filled = [_fill(inner, parts, plain) for inner in layout[1]]
    return filled if kind == "list" else tuple(filled)


def _class(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


# -- within one process ----------------------------------------------------------------------------


def hand_over(value: Any) -> Ref:
    """A value that crosses an actor's edge inside one process, as if it had been sent.

    Containers are made anew. Arrays are copied, but for those that nobody can write to any more. A
    value of other classes is pickled; a value that cannot be, such as a generator or a lock, stays
    the object it is.
    """
    try:
        return ValueRef(_handed(value, _DEEP))
    except Unknown:
        try:
            return PackedRef.of(value, by_value=False)
        except Exception:  # between two processes such a value would be refused
            return ValueRef(value)


def _handed(value: Any, deep: int) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    module = kind.__module__
    if module == "numpy" and not hasattr(value, "__array_finalize__"):
        return value  # a single number
    if module.partition(".")[0] == "torch":
        return value  # a tensor cannot be made read-only, and may live on a device
    if kind.__name__ == "ndarray" and module == "numpy":
        if value.dtype.hasobject:
            raise Unknown
        if not value.flags.writeable and _nobody_writes(value):
            return value
        handed = value.copy()
        handed.flags.writeable = False
        return handed
    if deep == 0:
        raise Unknown
    if kind is dict:
        return {name: _handed(part, deep - 1) for name, part in value.items()}
    if kind is list or kind is tuple:
        return kind([_handed(part, deep - 1) for part in value])
    ship = getattr(kind, "__ship__", None)
    if ship is None:
        raise Unknown
    fixed, inside = ship(value)
    handed = _handed(inside, deep - 1)
    return value if handed is inside else kind.__unship__(fixed, handed)


def _nobody_writes(array: Any) -> bool:
    """Whether a read-only array has no writeable one below it."""
    below = array.base
    while below is not None:
        flags = getattr(below, "flags", None)
        if flags is None:  # no array: bytes, a mapping, or memory that somebody lends
            return True
        if flags.writeable:
            return False
        below = below.base
    return True
