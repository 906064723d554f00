"""Spaces of any kind to plain arrays, a whole vector step at a time.

Observations become one float32 vector per environment, or stay what they are where a model wants
them so (float32 arrays of any shape, uint8 images); those of several parts are `structured`.
Actions of a policy become what the environment wants: its first index, its bounds, its dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rillflow.errors import BuildError

if TYPE_CHECKING:
    from gymnasium.spaces import Box, Space

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Observations:
    """How a batch of raw observations becomes one array."""

    space: Box
    """of one environment, after encoding"""
    encode: Callable[..., Array]
    """raw batch to array [B, *space.shape]; a float32 or image batch is passed on, not copied; an
    encoder that joins masks takes those [B, mask_size] too"""


@dataclass(frozen=True)
class Actions:
    """How a batch of a policy's actions becomes what the environment takes."""

    space: Space[Any]
    """of one environment, as a policy sees it: indices count from 0, MultiDiscrete is flat"""
    to_env: Callable[[Array], Array]
    """[B, *space.shape] to the environment's own; a Box is clipped to its bounds"""


def is_box(space: Space[Any]) -> bool:
    """Whether shape and dtype are all there is to check."""
    from gymnasium import spaces

    return isinstance(space, spaces.Box)


def observations_of(
    space: Space[Any], name: str, choices: int = 0, *, masked: bool = False
) -> Observations:
    """The encoder for one environment's observation space.

    Args:
        space: the environment's own.
        name: of the environment.
        choices: the size of a mask of its actions, which is looked for; 0: there is none.
        masked: whether the mask comes beside the observation, from infos.
    """
    from gymnasium import spaces

    if masked or isinstance(space, spaces.Dict | spaces.Tuple):
        from rillflow.envs.structured import structured

        return structured(space, name, choices, masked=masked)
    return lone(space, name)


def lone(space: Space[Any], name: str) -> Observations:
    """The encoder for a space without parts."""
    from gymnasium import spaces

    from rillflow.envs.encoded_box import EncodedBox

    if isinstance(space, spaces.Box):
        return _box(space, name)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return _one_hot(space)
    if isinstance(space, spaces.MultiBinary):
        size = prod(space.shape)
        bits = EncodedBox(0.0, 1.0, np.float32, raw=space, shape=(size,))
        return Observations(bits, lambda raw: _flat(raw))
    raise unsupported(
        space, name, "observation", "Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple"
    )


def is_whole(space: Space[Any]) -> bool:
    """Whether a space holds whole pixels, in an image or a table: uint8, with two axes or three."""
    return is_box(space) and space.dtype == np.uint8 and len(space.shape or ()) in (2, 3)


def _box(space: Box, name: str) -> Observations:
    from gymnasium import spaces

    from rillflow.envs.encoded_box import EncodedBox

    if space.dtype is None or space.dtype.kind not in "fiub":
        raise unsupported(space, name, "observation", "a Box of numbers")
    if space.dtype == np.bool_ and len(space.shape) in (2, 3):  # an image stays as small as it is
        bits = spaces.Box(0, 1, space.shape, np.uint8)
        return Observations(bits, lambda raw: raw.view(np.uint8))
    if is_whole(space) or (space.dtype == np.float32 and space.shape):
        return Observations(space, lambda raw: raw)
    shape = space.shape or (1,)  # a number is a vector of one
    low, high = (np.asarray(x, np.float64).reshape(shape) for x in (space.low, space.high))
    with np.errstate(over="ignore"):  # a bound of float64 may well be infinite in float32
        low, high = low.astype(np.float32), high.astype(np.float32)
    box: Box
    if space.shape:
        box = spaces.Box(low, high, dtype=np.float32)
    else:
        box = EncodedBox(low, high, np.float32, raw=space)
    return Observations(box, lambda raw: raw.astype(np.float32).reshape(-1, *shape))


def _one_hot(space: Any) -> Observations:
    """One vector for each index, joined; the offsets do it in a single assignment."""
    from rillflow.envs.encoded_box import EncodedBox

    sizes = np.reshape(space.nvec if hasattr(space, "nvec") else space.n, -1)
    starts = np.reshape(space.start, -1)
    offsets = np.concatenate(([0], np.cumsum(sizes)[:-1])) - starts
    width = int(sizes.sum())

    def encode(raw: Array) -> Array:
        places = np.asarray(raw).reshape(-1, len(sizes)) + offsets
        out = np.zeros((len(places), width), np.float32)
        np.put_along_axis(out, places.astype(np.intp), 1.0, axis=1)
        return out

    box = EncodedBox(0.0, 1.0, np.float32, raw=space, shape=(width,))
    return Observations(box, encode)


def _flat(raw: Array) -> Array:
    return raw.reshape(len(raw), -1).astype(np.float32, copy=False)


def actions_of(space: Space[Any], name: str) -> Actions:
    """The decoder for one environment's action space."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        from rillflow.envs.composed_actions import composed

        return composed(space, name)
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return Actions(
            spaces.Discrete(int(space.n)),
            lambda actions: actions + start if start else actions,
        )
    if isinstance(space, spaces.MultiDiscrete):
        starts, sizes, shape = space.start, space.nvec.reshape(-1), space.shape
        return Actions(
            spaces.MultiDiscrete(sizes), lambda actions: actions.reshape(-1, *shape) + starts
        )
    if isinstance(space, spaces.MultiBinary):
        shape = space.shape
        return Actions(
            spaces.MultiDiscrete(np.full(prod(shape), 2)),
            lambda actions: actions.reshape(-1, *shape).astype(np.int8),
        )
    if isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind == "f":
        return Actions(space, lambda actions: clip_to_box(actions, space))
    raise unsupported(
        space,
        name,
        "action",
        "Discrete, MultiDiscrete, MultiBinary, a Box of floats, or a Dict or Tuple of these",
    )


def choices_of(space: Space[Any]) -> tuple[int, ...]:
    """How many choices each part of a policy's action has; nothing for a continuous one."""
    from gymnasium import spaces

    from rillflow.envs.mixed_box import MixedBox

    if isinstance(space, MixedBox):
        return space.choices
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(int(n) for n in np.ravel(space.nvec))
    return ()


def clip_to_box(actions: Array, space: Box) -> Array:
    """Actions of any size, clipped to the bounds of a Box and cast to its dtype."""
    return np.clip(actions, space.low, space.high).astype(space.dtype, copy=False)


def unit_to_box(actions: Array, space: Box) -> Array:
    """Actions in [-1, 1], stretched to the bounds of a Box; unbounded sides are left alone."""
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, space.low, -1.0), np.where(bounded, space.high, 1.0)
    return np.asarray(low + (actions + 1.0) * 0.5 * (high - low), space.dtype)


def unsupported(space: Any, name: str, what: str, supported: str) -> BuildError:
    """The error for a space that nothing here can use."""
    return BuildError(
        f"environment {name!r}: its {what} space is {space}; rillflow can use {supported}. "
        f"A gymnasium.{what.capitalize()}Wrapper can turn it into one of these"
    )
