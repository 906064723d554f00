"""The reverse of `encode`: a nested state from parsed JSON and the arrays that it names.

The input is not trusted. A node is known by its tag and has exactly the entries of that tag;
anything else is `CheckpointDamaged`, which says where in the state.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rillflow.checkpoint.arrays import Array, dtype_named, from_tensor
from rillflow.checkpoint.errors import CheckpointDamaged, UnknownClass
from rillflow.checkpoint.registered_classes import kind_named

_HEX_INT = re.compile(r"-?0x[0-9a-f]+", re.ASCII)
_ARRAY_NOTES = {"axes", "read_only", "dtype", "shape"}


def decode(tree: Any, arrays: Mapping[str, Array], file: Path | str) -> Any:
    """The state; `file` is named if something is wrong."""
    decoder = _Decoder(arrays, file)
    try:
        state = decoder.value(tree)
    except RecursionError:
        raise CheckpointDamaged(file, "a state", "one that is nested too deeply") from None
    unused = [name for name in arrays if name not in decoder.used]
    if unused:
        raise CheckpointDamaged(file, "a use for every array", f"none for {unused[0]!r}")
    return state


class _Bad(Exception):  # noqa: N818 - on its way to become CheckpointDamaged
    """What was expected, and what was found."""


class _Decoder:
    def __init__(self, arrays: Mapping[str, Array], file: Path | str) -> None:
        self.used: set[str] = set()
        self._arrays = arrays
        self._file = file
        self._path: list[str] = []
        self._known: dict[str, tuple[dict[str, Any], Any]] = {}
        self._tags: dict[str, tuple[set[str], Callable[[dict[str, Any]], Any]]] = {
            "int": ({"hex"}, _int),
            "float": ({"hex"}, lambda node: struct.unpack(">d", _bytes(node, 8))[0]),
            "complex": ({"hex"}, lambda node: complex(*struct.unpack(">dd", _bytes(node, 16)))),
            "scalar": ({"hex", "dtype"}, _scalar),
            "tuple": ({"items"}, lambda node: tuple(self._items(node))),
            "dict": ({"items"}, self._dict),
            "array": ({"name"}, lambda node: self._tensor(node, from_tensor)),
            "bytes": ({"name"}, lambda node: self._tensor(node, _raw)),
            "value": ({"class", "fields"}, self._registered),
        }

    def value(self, tree: Any) -> Any:
        if type(tree) is list:
            return [self._at(i, v) for i, v in enumerate(tree)]
        if type(tree) is not dict:
            return tree
        if "$" not in tree:
            return {k: self._at(k, v) for k, v in tree.items()}
        try:
            return self._tagged(tree)
        except _Bad as bad:
            expected, found = bad.args
            where = "/".join(self._path) or "the top"
            raise CheckpointDamaged(self._file, f"{expected} at {where}", found) from None

    def _tagged(self, node: dict[str, Any]) -> Any:
        tag = node["$"]
        if not isinstance(tag, str) or tag not in self._tags:
            raise _Bad("a known tag", repr(tag)[:60])
        entries, build = self._tags[tag]
        given = node.keys() - {"$"} - (_ARRAY_NOTES if tag == "array" else set())
        if given != entries:
            raise _Bad(f"entries {sorted(entries)} of {tag!r}", str(sorted(given))[:200])
        return build(node)

    def _at(self, key: object, tree: Any) -> Any:
        if type(tree) is not dict and type(tree) is not list:
            return tree
        self._path.append(str(key))
        value = self.value(tree)
        self._path.pop()
        return value

    def _items(self, node: dict[str, Any]) -> list[Any]:
        items = node["items"]
        if type(items) is not list:
            raise _Bad("a list of items", type(items).__name__)
        return [self._at(i, item) for i, item in enumerate(items)]

    def _dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        pairs = self._items(node)
        if any(type(pair) is not list or len(pair) != 2 for pair in pairs):
            raise _Bad("pairs of key and value", "something else")
        try:
            value = dict(pairs)
        except TypeError as error:
            raise _Bad("keys of a dict", str(error)) from None
        if len(value) != len(pairs):
            raise _Bad("different keys", "the same key twice")
        return value

    def _tensor(self, node: dict[str, Any], build: Callable[[Array, dict[str, Any]], Any]) -> Any:
        """An array or bytes; where the state had one object in two places, it has one again."""
        name = node["name"]
        if not isinstance(name, str) or name not in self._arrays:
            raise _Bad("an array in the array files", f"the name {str(name)[:60]!r}")
        if name not in self._known:
            self.used.add(name)
            try:
                self._known[name] = (node, build(self._arrays[name], node))
            except (TypeError, ValueError, KeyError) as error:
                raise _Bad("a description of its array", str(error)) from None
        first, value = self._known[name]
        if first != node:
            raise _Bad(f"one description of array {name!r}", "two that differ")
        return value

    def _registered(self, node: dict[str, Any]) -> Any:
        name, fields = node["class"], node["fields"]
        kind = kind_named(name) if isinstance(name, str) else None
        if kind is None:
            raise UnknownClass(
                f"{self._file}: {'/'.join(self._path)} is a {str(name)[:60]!r}, and no class of "
                "that name is registered. Import the module that registers it (with "
                "rillflow.checkpoint.register) before you read this checkpoint."
            )
        if type(fields) is not dict or fields.keys() != set(kind.fields):
            found = sorted(fields) if type(fields) is dict else type(fields).__name__
            raise _Bad(f"fields {sorted(kind.fields)} of {name}", str(found)[:200])
        values = {field: self._at(field, fields[field]) for field in kind.fields}
        try:
            return kind.build(values)
        except Exception as error:  # whatever the class has against these values
            raise _Bad(f"what a {name} is made of", f"{type(error).__name__}: {error}") from error


def _bytes(node: dict[str, Any], size: int) -> bytes:
    try:
        data = bytes.fromhex(node["hex"])
    except (TypeError, ValueError):
        raise _Bad("hexadecimal digits", repr(node["hex"])[:60]) from None
    if len(data) != size:
        raise _Bad(f"{size} bytes", f"{len(data)}")
    return data


def _int(node: dict[str, Any]) -> int:
    text = node["hex"]
    if not isinstance(text, str) or not _HEX_INT.fullmatch(text):
        raise _Bad("a whole number", repr(text)[:60])
    return int(text, 16)


def _scalar(node: dict[str, Any]) -> Any:
    try:
        dtype = dtype_named(node["dtype"])
    except ValueError as error:
        raise _Bad("the type of a number", str(error)) from None
    return np.frombuffer(_bytes(node, dtype.itemsize), dtype)[0]


def _raw(tensor: Array, _: dict[str, Any]) -> bytes:
    if tensor.dtype != np.uint8 or tensor.ndim != 1:
        raise ValueError(f"an array of type {tensor.dtype}")
    return tensor.tobytes()
