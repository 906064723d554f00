"""Spaces in the JSON of Minari's metadata, both ways, and how two of them differ.

What is read is data of a stranger: only the kinds that are listed here are made of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from gymnasium import Space, spaces

_NUMBERS = 50_000_000
"""of one observation or action: a space with more was not meant"""


def to_json(space: Space[Any]) -> str:
    """A space as Minari writes it.

    >>> to_json(spaces.Discrete(2))
    '{"type": "Discrete", "dtype": "int64", "start": 0, "n": 2}'
    """
    return json.dumps(_data_of(space))


def _data_of(space: Space[Any]) -> dict[str, Any]:
    if isinstance(space, spaces.Box):
        shape = {"dtype": str(space.dtype), "shape": list(space.shape)}
        return {"type": "Box", **shape, "low": space.low.tolist(), "high": space.high.tolist()}
    if isinstance(space, spaces.Discrete):
        whole = {"dtype": "int64", "start": int(space.start), "n": int(space.n)}
        return {"type": "Discrete", **whole}
    if isinstance(space, spaces.MultiDiscrete):
        parts = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"type": "MultiDiscrete", "dtype": str(space.dtype), **parts}
    if isinstance(space, spaces.MultiBinary):
        n = space.n if isinstance(space.n, int) else [int(size) for size in space.shape]
        return {"type": "MultiBinary", "n": n}
    if isinstance(space, spaces.Dict):
        parts = {key: _data_of(part) for key, part in space.spaces.items()}
        return {"type": "Dict", "subspaces": parts}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "subspaces": [_data_of(part) for part in space.spaces]}
    raise ValueError(f"a dataset cannot hold elements of {space}")


def from_data(data: Any) -> Space[Any]:
    """The space that parsed JSON describes; `ValueError` if it describes none."""
    if not isinstance(data, Mapping):
        raise ValueError(f"a space is an object, found {type(data).__name__}")
    try:
        return _made(data)
    except (KeyError, TypeError, AssertionError, AttributeError, OverflowError) as error:
        raise ValueError(f"no space of type {data.get('type')!r}: {error!r}") from None


def _made(data: Mapping[str, Any]) -> Space[Any]:
    kind = data["type"]
    if kind == "Box":
        shape = tuple(int(size) for size in data["shape"])
        if prod(shape) > _NUMBERS or min(shape, default=0) < 0:
            raise ValueError(f"a Box of shape {shape}")
        dtype = np.dtype(str(data["dtype"]))
        if dtype.kind not in "fiub":
            raise ValueError(f"a Box of dtype {dtype}")
        low, high = (np.asarray(data[side], dtype).reshape(shape) for side in ("low", "high"))
        return spaces.Box(low, high, shape, dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(int(data["n"]), start=int(data.get("start", 0)))
    if kind == "MultiDiscrete":
        nvec = np.asarray(data["nvec"], np.int64)
        start = data.get("start")
        dtype = np.dtype(str(data.get("dtype", "int64")))
        return spaces.MultiDiscrete(nvec, dtype=dtype.type, start=start)
    if kind == "MultiBinary":
        n = data["n"]
        return spaces.MultiBinary(n if isinstance(n, int) else [int(size) for size in n])
    if kind == "Dict":
        return spaces.Dict({str(key): from_data(part) for key, part in data["subspaces"].items()})
    if kind == "Tuple":
        return spaces.Tuple([from_data(part) for part in data["subspaces"]])
    raise ValueError(f"spaces of type {kind!r} cannot be learned from")


def difference(found: Space[Any], wanted: Space[Any], what: str, bounds: bool) -> str | None:
    """How the space of a dataset differs from the environment's; None: it does not.

    Args:
        found: in the dataset.
        wanted: by the environment.
        what: how to call it.
        bounds: whether bounds of numbers have to agree, too.
    """
    differs = f"{what}: the dataset has {found}, the environment {wanted}"
    if isinstance(found, spaces.Dict) and isinstance(wanted, spaces.Dict):
        if set(found.spaces) != set(wanted.spaces):
            return differs
        parts = [(found[key], wanted[key], f"{what}[{key!r}]") for key in wanted.spaces]
    elif isinstance(found, spaces.Tuple) and isinstance(wanted, spaces.Tuple):
        if len(found.spaces) != len(wanted.spaces):
            return differs
        parts = [(found[i], wanted[i], f"{what}[{i}]") for i in range(len(wanted.spaces))]
    else:
        return None if _same(found, wanted, bounds) else differs
    return next((text for part in parts if (text := difference(*part, bounds))), None)


def _same(found: Space[Any], wanted: Space[Any], bounds: bool) -> bool:
    if not (isinstance(found, spaces.Box) and isinstance(wanted, spaces.Box)):
        return bool(found == wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    near = np.allclose(found.low, wanted.low) and np.allclose(found.high, wanted.high)
    return not bounds or bool(near)
