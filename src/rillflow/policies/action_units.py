"""The units in which a network speaks of continuous actions, told by their bounds.

A Gaussian that begins at 0 with a deviation of 1 suits actions from -1 to 1. Of torques from 300 to
500 it finds none but the lowest, and one of a valve from 0 to 1 it clips half of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space
from numpy.typing import NDArray

from rillflow.envs.mixed_box import MixedBox
from rillflow.policies.image_scale import FAR

Floats = NDArray[np.float32]
Bounds = tuple[NDArray[Any], NDArray[Any]]

NARROW, WIDE = 0.5, 4.0
"""half the way between bounds that a Gaussian of deviation 1 suits"""


def bounds_of(space: Space[Any]) -> Bounds:
    """The lowest and the highest of the continuous numbers of an action, [*shape]."""
    box: Any = space
    if isinstance(space, MixedBox):
        return space.bounds
    return np.asarray(box.low, np.float32), np.asarray(box.high, np.float32)


def action_units(space: Space[Any]) -> tuple[Floats, Floats] | None:
    """Of each continuous number what 0 and 1 of a network mean: the middle of its bounds, and half
    the way between them. None: for all numbers 0 and 1 themselves.

    A number keeps 0 and 1 if they suit its bounds: 0 is in the middle half of what they enclose,
    and half the way between them is at least 1/2 and at most 4. So does one that has no bounds, or
    has only one; bounds beyond a million stand for none.

    >>> from gymnasium.spaces import Box
    >>> action_units(Box(300, 500, (1,)))
    (array([400.], dtype=float32), array([100.], dtype=float32))
    >>> action_units(Box(-2, 2, (1,))), action_units(Box(0, np.inf, (1,)))
    (None, None)
    """
    low, high = (np.ravel(bound).astype(np.float64) for bound in bounds_of(space))
    bounded = (np.abs(low) <= FAR) & (np.abs(high) <= FAR) & (low < high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    middle, half = (low + high) / 2, (high - low) / 2
    suits = (np.abs(middle) <= half / 2) & (half >= NARROW) & (half <= WIDE)
    if suits.all():
        return None
    units = np.where(suits, 0.0, middle), np.where(suits, 1.0, half)
    return units[0].astype(np.float32), units[1].astype(np.float32)


def in_other_units(
    weights: Mapping[str, NDArray[Any]],
    theirs: tuple[Floats, Floats] | None,
    ours: tuple[Floats, Floats] | None,
) -> dict[str, NDArray[Any]]:
    """A copy of the weights of a built-in network, for one whose outputs have other units.

    Both compute the same means; `log_std` is in the environment's units anyway.

    Args:
        weights: with the layer `action_head`, if units are given.
        theirs: what 0 and 1 of each output mean where the weights are from
            (`PolicySpec.mean_units`).
        ours: what they mean where the weights go.
    """
    copied = {name: array.copy() for name, array in weights.items()}
    if theirs is None and ours is None:
        return copied
    size = len(copied["action_head.bias"])
    zero_and_one = np.zeros(size, np.float32), np.ones(size, np.float32)
    (middle, half), (own_middle, own_half) = theirs or zero_and_one, ours or zero_and_one
    copied["action_head.weight"] *= (half / own_half)[:, None]
    means = half * copied["action_head.bias"] + middle
    copied["action_head.bias"] = (means - own_middle) / own_half
    return copied
