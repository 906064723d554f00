"""Arrays by name that are parts of one vector: the weights of a network, or their gradients."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Layout:
    """What the parts of a vector are called, where they are and what shapes they have.

    There is one for each list of names and shapes (`layout_of`): equal ones are the same one.
    """

    __slots__ = ("code", "parts", "size")

    def __init__(self, code: bytes) -> None:
        shapes = [(name, tuple(shape)) for name, shape in json.loads(code)]
        ends = list(accumulate(prod(shape) for _, shape in shapes))
        self.code = code
        self.parts = [
            (name, slice(begin, end), shape)
            for (name, shape), begin, end in zip(shapes, [0, *ends], ends, strict=False)
        ]
        self.size = ends[-1] if ends else 0

    def views(self, vector: Array) -> dict[str, Array]:
        """The parts, as arrays over the vector's own memory."""
        return {name: vector[part].reshape(shape) for name, part, shape in self.parts}


def layout_of(shapes: Mapping[str, tuple[int, ...]]) -> Layout:
    """The layout of arrays with these names and shapes, one behind the other."""
    return _layout(json.dumps(list(shapes.items())).encode())


_layout = cache(Layout)


class NamedVector(Mapping[str, Array]):
    """A vector of which nobody changes a number any more, and its parts by name.

    It goes to another process as one array, which takes a fraction of the time of a dozen, and who
    has a vector of the same layout takes it over in one go.

    >>> named = NamedVector(np.arange(6.0), layout_of({"weight": (2, 2), "bias": (2,)}))
    >>> named["weight"].tolist(), named["bias"].tolist()
    ([[0.0, 1.0], [2.0, 3.0]], [4.0, 5.0])
    >>> NamedVector.of({"a": np.ones(2), "b": np.zeros((1, 1))}).vector.tolist()
    [1.0, 1.0, 0.0]
    """

    __slots__ = ("_views", "layout", "vector")

    def __init__(self, vector: Array, layout: Layout) -> None:
        vector.flags.writeable = False
        self.vector = vector
        self.layout = layout
        self._views: dict[str, Array] | None = None

    @staticmethod
    def of(arrays: Mapping[str, Array]) -> NamedVector:
        """Arrays of one type, copied one behind the other."""
        shapes = {name: array.shape for name, array in arrays.items()}
        return NamedVector(np.concatenate([a.ravel() for a in arrays.values()]), layout_of(shapes))

    def _parts(self) -> dict[str, Array]:
        if self._views is None:  # on its way through the driver nobody looks into it
            self._views = self.layout.views(self.vector)
        return self._views

    def __getitem__(self, name: str) -> Array:
        return self._parts()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts())

    def __len__(self) -> int:
        return len(self.layout.parts)

    def __reduce__(self) -> Any:
        return _restored, (self.vector, self.layout.code)

    def __ship__(self) -> tuple[bytes, Array]:
        return self.layout.code, self.vector

    @staticmethod
    def __unship__(code: bytes, vector: Array) -> NamedVector:
        return _restored(vector, code)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(shape)}" for name, _, shape in self.layout.parts)
        return f"NamedVector({shapes})"


def _restored(vector: Array, code: bytes) -> NamedVector:
    return NamedVector(vector, _layout(code))
