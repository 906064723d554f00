"""Observations from JSON as the arrays of a policy, checked; and actions as JSON.

An observation is what the environment gives: nested lists of numbers, an object for a Dict, a list
for a Tuple. In place of any array may stand its bytes: `{"base64": "...", "dtype": "uint8",
"shape": [84, 84, 4]}`, which is much shorter for images.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rillflow.envs.as_policy_sees import as_policy_sees
from rillflow.envs.layout import MASK, Layout, Part, Tree, named
from rillflow.envs.mixed_box import MixedBox
from rillflow.envs.spaces import clip_to_box
from rillflow.envs.structured import encode_batch
from rillflow.policies.spec import PolicySpec

Array = NDArray[Any]
_DTYPES = {"uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"}
_DIMENSIONS = 8


class BadRequestError(Exception):
    """What is wrong with a request, as one sentence for whoever sent it."""


class Encoder:
    """Makes one row of a policy's input from one observation."""

    def __init__(self, spec: PolicySpec) -> None:
        self.spec, self.layout = spec, spec.layout
        if self.layout is None:
            self._one: Callable[[Any], Array] = self._plain
        else:
            self._tree: Tree = self.layout.tree

    def row(self, observation: Any, mask: Any = None) -> Array:
        """The array of one observation, [*shape]; `BadRequestError` if it is not one."""
        if self.layout is None:
            if mask is not None:
                raise BadRequestError(
                    "this policy knows no masks of actions: leave action_mask out"
                )
            return self._one(observation)
        masks = self._mask(self.layout, observation, mask)
        if self.layout.mask_inside:
            observation = {k: v for k, v in observation.items() if k != MASK}
        raw = _structured(self._tree, observation, ())
        if self.layout.mask_inside:
            raw = {**raw, MASK: masks}
        encoded, single = encode_batch(self.layout, raw, masks)
        assert single, "one at a time"
        row: Array = encoded[0]
        return row

    def _plain(self, observation: Any) -> Array:
        space: Any = self.spec.observation_space
        as_seen = _numbers(observation, "observation").shape == space.shape
        own = _leaf(observation, space if as_seen else shown(space), "observation")
        row: Array = as_policy_sees(space, own)[0][0]
        return row

    def _mask(self, layout: Layout, observation: Any, mask: Any) -> Array | None:
        """Which choices are allowed, from the observation or from beside it; None: all of them."""
        if not layout.mask_size:
            if mask is not None:
                raise BadRequestError(
                    "this policy knows no masks of actions: leave action_mask out"
                )
            return None
        if layout.mask_inside:
            if not isinstance(observation, Mapping) or MASK not in observation:
                raise BadRequestError(f"an observation of this policy has its mask under {MASK!r}")
            mask = observation[MASK]
        if mask is None:
            return None
        found = _numbers(mask, "action_mask").reshape(-1)
        if found.size != layout.mask_size:
            raise BadRequestError(
                f"action_mask has {found.size} entries, and there are {layout.mask_size} choices"
            )
        allowed: Array = found > 0
        if not allowed.any():
            raise BadRequestError("action_mask allows no action at all")
        return allowed


def shown(space: Any) -> Any:
    """The space of what the environment shows, of a policy whose observations have no parts."""
    return getattr(space, "raw", space)


def _structured(tree: Tree, value: Any, at: tuple[Any, ...]) -> Any:
    """A value in the structure of a tree."""
    if isinstance(tree, dict):
        if not isinstance(value, Mapping):
            raise BadRequestError(f"{named(at)} is an object with {_listed(tree)}")
        missing, other = tree.keys() - value.keys(), value.keys() - tree.keys()
        if missing or other:
            what = f"lacks {_listed(missing)}" if missing else f"has no {_listed(other)}"
            raise BadRequestError(f"{named(at)} {what}: it is an object with {_listed(tree)}")
        return {key: _structured(branch, value[key], (*at, key)) for key, branch in tree.items()}
    if isinstance(tree, tuple):
        if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != len(tree):
            raise BadRequestError(f"{named(at)} is a list of {len(tree)} parts")
        return tuple(_structured(branch, value[i], (*at, i)) for i, branch in enumerate(tree))
    return _leaf(value, tree.raw if isinstance(tree, Part) else tree, named(at))


def _leaf(value: Any, space: Any, name: str) -> Array:
    """One array of the environment, checked against its space."""
    shape = tuple(space.shape or ())
    found = _numbers(value, name)
    if found.shape != shape:
        raise BadRequestError(f"{name} has shape {list(found.shape)}, and must have {list(shape)}")
    dtype = np.dtype(space.dtype)
    if dtype.kind in "iub":
        whole = np.asarray(np.rint(found.astype(np.float64)))
        if not np.array_equal(whole, found):
            raise BadRequestError(f"{name} must be whole numbers")
        low, high = _range(space, dtype)
        if (found < low).any() or (found > high).any():
            raise BadRequestError(f"{name} must be between {_shown(low)} and {_shown(high)}")
    with np.errstate(over="ignore"):
        cast: Array = found.astype(dtype)
    if dtype.kind == "f" and not np.isfinite(cast).all():
        raise BadRequestError(f"{name} holds a number that is not finite")
    return cast


def _range(space: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start) + int(space.n) - 1
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if dtype.kind == "b" or isinstance(space, spaces.MultiBinary):
        return 0, 1
    info = np.iinfo(dtype)
    return info.min, info.max


def _numbers(value: Any, name: str) -> Array:
    """Any array of numbers from JSON."""
    if isinstance(value, Mapping):
        return _from_bytes(value, name)
    try:
        found = np.asarray(value)
    except ValueError:
        found = np.asarray(None)
    if found.dtype.kind not in "biuf":
        raise BadRequestError(f"{name} must be numbers in lists of equal lengths")
    return found


def _from_bytes(value: Mapping[str, Any], name: str) -> Array:
    match value:
        case {"base64": str(text), "dtype": str(dtype), "shape": list(shape)} if (
            dtype in _DTYPES
            and len(value) == 3
            and len(shape) <= _DIMENSIONS
            and all(type(side) is int and 0 <= side < 2**31 for side in shape)
        ):
            try:
                data = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise BadRequestError(f"{name}: its base64 cannot be read") from None
            if len(data) != math.prod(shape) * np.dtype(dtype).itemsize:
                raise BadRequestError(f"{name}: {len(data):,} bytes are not {dtype} {shape}")
            return np.frombuffer(data, dtype).reshape(shape)
    raise BadRequestError(
        f'{name} is a list, or an object with "base64", "dtype" ({", ".join(sorted(_DTYPES))}) '
        'and "shape"'
    )


def _listed(names: Any) -> str:
    return ", ".join(sorted(repr(name)[:60] for name in names)[:20])


def _shown(bound: Any) -> str:
    return str(np.asarray(bound).tolist())[:60]


def actions_to_json(spec: PolicySpec, actions: Array) -> list[Any]:
    """Actions [B, *shape] as lists; those of a Box within its bounds, as environments get them."""
    if isinstance(spec.action_space, spaces.Box):
        actions = clip_to_box(actions, spec.action_space)
    found: list[Any] = np.asarray(actions).tolist()
    return found


def described(spec: PolicySpec) -> dict[str, Any]:
    """What a client has to know: of observations, actions, masks and memory."""
    tree = spec.layout.tree if spec.layout else shown(spec.observation_space)
    return {
        "observation": _described(tree),
        "action_mask": None if spec.layout is None or not spec.layout.mask_size else {
            "choices": spec.layout.mask_size,
            "where": "in the observation" if spec.layout.mask_inside else "beside it",
        },
        "action": _described(spec.action_space),
        "remembers": spec.recurrent,
    }  # fmt: skip


def _described(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {str(key): _described(branch) for key, branch in tree.items()}
    if isinstance(tree, tuple):
        return [_described(branch) for branch in tree]
    space = tree.raw if isinstance(tree, Part) else tree
    about: dict[str, Any] = {"space": type(space).__name__, "shape": list(space.shape or ())}
    about["dtype"] = str(space.dtype)
    if isinstance(space, spaces.Discrete):
        about["choices"] = int(space.n)
    if isinstance(space, MixedBox):  # their indices come first, the numbers after them
        about |= {"choices": list(space.choices), "numbers": space.numbers}
    return about
