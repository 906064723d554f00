"""Spaces as JSON can hold them, and back; how large they are is compared before any is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from rillflow.envs.encoded_box import EncodedBox
from rillflow.envs.image_box import image_box
from rillflow.envs.layout import Layout, Part, Structured, Tree, layout_of
from rillflow.envs.mixed_box import MixedBox

_NUMBERS = 1 << 24
"""in one observation or action of a saved policy"""
_PARTS = 1 << 16
"""of an action that consists of several"""
_DEPTH = 32
"""of observations inside observations"""


def space_to_data(space: Space[Any]) -> dict[str, Any]:
    """A space of a spec as plain data."""
    layout = layout_of(space)
    if layout is not None:
        return {
            "kind": "structured",
            "tree": _tree_to_data(layout.tree),
            "mask_size": layout.mask_size,
            "mask_inside": layout.mask_inside,
        }
    if isinstance(space, spaces.Discrete):
        start = {"start": int(space.start)} if space.start else {}
        return {"kind": "discrete", "n": int(space.n), **start}
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.asarray(space.start)
        start = {"start": starts.tolist()} if starts.any() else {}
        return {"kind": "multidiscrete", "nvec": np.asarray(space.nvec).tolist(), **start}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "multibinary", "shape": list(space.shape)}
    assert isinstance(space, spaces.Box), "a spec has no other spaces"
    if isinstance(space, MixedBox):
        low, high = (_bound(bound) for bound in space.bounds)
        choices = list(space.choices)
        return {
            "kind": "mixed", "choices": choices, "numbers": space.numbers, "low": low, "high": high
        }  # fmt: skip
    about = {"channels": space.channels} if hasattr(space, "channels") else {}
    if isinstance(space, EncodedBox):
        about["raw"] = space_to_data(space.raw)
    return {
        "kind": "box",
        "low": _bound(space.low),
        "high": _bound(space.high),
        "shape": list(space.shape),
        "dtype": str(space.dtype),
        **about,
    }


def _bound(bound: NDArray[Any]) -> Any:
    """One number where all are the same: the bounds of an image need not be listed."""
    first = bound.flat[0].item() if bound.size else 0.0
    return first if bool((bound == first).all()) else bound.tolist()


def space_from_data(data: Mapping[str, Any]) -> Space[Any]:
    """The reverse of `space_to_data`."""
    if data["kind"] == "structured":
        return _structured_from_data(data)
    if data["kind"] == "discrete":
        return spaces.Discrete(data["n"], start=data.get("start", 0))
    if data["kind"] == "multidiscrete":
        choices = np.array(data["nvec"], np.int64)
        if choices.size > _PARTS:
            raise ValueError(f"an action of {choices.size:,} parts")
        start = np.array(data["start"], np.int64) if "start" in data else None
        return spaces.MultiDiscrete(choices, start=start)
    if data["kind"] == "mixed":
        return _mixed_from_data(data)
    shape = tuple(data["shape"])
    if any(type(side) is not int or side < 0 for side in shape) or math.prod(shape) > _NUMBERS:
        raise ValueError(f"a space of shape {str(data['shape'])[:60]}")
    if data["kind"] == "multibinary":
        return spaces.MultiBinary(shape)
    dtype = np.dtype(data["dtype"])
    if dtype.kind not in "biuf":
        raise ValueError(f"a space of {dtype}")
    low, high = (_bound_from_data(data[name], shape, dtype) for name in ("low", "high"))
    channels = data.get("channels")
    if channels not in ("first", "last", None):
        raise ValueError(f"an image with channels {str(channels)[:60]}")
    if "raw" not in data:
        return image_box(low, high, dtype, channels)
    raw = _raw_from_data(data["raw"], math.prod(shape))
    return EncodedBox(low, high, dtype, raw=raw, channels=channels)


def _raw_from_data(data: Mapping[str, Any], size: int) -> Space[Any]:
    """What an environment shows, of which a policy sees so many numbers."""
    if data["kind"] not in ("box", "discrete", "multidiscrete", "multibinary") or "raw" in data:
        raise ValueError(f"an observation that is shown as {str(data['kind'])[:60]}")
    raw = space_from_data(data)
    if isinstance(raw, spaces.Discrete | spaces.MultiDiscrete):
        choices = int(np.sum(raw.nvec if isinstance(raw, spaces.MultiDiscrete) else raw.n))
        if choices != size:
            raise ValueError(f"{choices:,} choices seen as {size:,} numbers")
    return raw


def _mixed_from_data(data: Mapping[str, Any]) -> MixedBox:
    choices, numbers = data["choices"], data["numbers"]
    whole = all(type(n) is int and n > 0 for n in (*choices, numbers))
    if not whole or not choices or max(len(choices), numbers) > _PARTS:
        raise ValueError(f"mixed actions of {str(choices)[:60]} and {str(numbers)[:60]} numbers")
    kind = np.dtype(np.float32)
    return MixedBox(
        choices, *(_bound_from_data(data[side], (numbers,), kind) for side in ("low", "high"))
    )


def _bound_from_data(bound: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    if isinstance(bound, list):
        return np.array(bound, np.float64).astype(dtype)
    return np.full(shape, bound, dtype)


def _tree_to_data(tree: Tree) -> dict[str, Any]:
    if isinstance(tree, dict):
        return {"dict": [[_key(key), _tree_to_data(branch)] for key, branch in tree.items()]}
    if isinstance(tree, tuple):
        return {"tuple": [_tree_to_data(branch) for branch in tree]}
    data: dict[str, Any] = {"part": tree.kind, "raw": space_to_data(tree.raw)}
    return data if tree.raw == tree.space else data | {"space": space_to_data(tree.space)}


def _key(key: Any) -> int | str:
    return key if isinstance(key, int) else str(key)


def _structured_from_data(data: Mapping[str, Any]) -> Structured:
    count = data["mask_size"]
    if type(count) is not int or not 0 <= count <= _NUMBERS:
        raise ValueError(f"a mask of {str(count)[:60]} choices")
    layout = Layout(_tree_from_data(data["tree"], 0), count, mask_inside=bool(data["mask_inside"]))
    if not layout.parts or sum(part.size for part in layout.parts.values()) > _NUMBERS:
        raise ValueError(
            f"an observation of {len(layout.parts):,} parts that is none, or too large"
        )
    return Structured(layout)


def _tree_from_data(data: Mapping[str, Any], depth: int) -> Tree:
    if depth > _DEPTH:
        raise ValueError(f"observations inside observations, more than {_DEPTH} deep")
    if "dict" in data:
        return {key: _tree_from_data(branch, depth + 1) for key, branch in data["dict"]}
    if "tuple" in data:
        return tuple(_tree_from_data(branch, depth + 1) for branch in data["tuple"])
    if data["part"] not in ("vector", "one_hot", "image"):
        raise ValueError(f"a part of the kind {str(data['part'])[:60]}")
    space: Any = space_from_data(data["space"] if "space" in data else data["raw"])
    if not isinstance(space, spaces.Box):
        raise ValueError(f"a part that is seen as {space}")
    raw = _raw_from_data(data["raw"], math.prod(space.shape))
    return Part(data["part"], space, raw)
