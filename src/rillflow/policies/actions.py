"""What a policy can do: an action space reduced to a kind and a few sizes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from gymnasium import Space, spaces

from rillflow.envs.mixed_box import MixedBox
from rillflow.errors import BuildError


@dataclass(frozen=True)
class Actions:
    """The actions of one environment, as a policy sees them.

    Discrete actions count from 0 and continuous ones are unbounded: shifting by a space's `start`
    and clipping to its bounds belong to the environment's side, so that the log-probability is
    that of what was sampled.
    """

    kind: Literal["discrete", "multidiscrete", "continuous", "mixed"]
    sizes: tuple[int, ...]
    """(n,) choices, the choices of each part, or (numbers,) of a continuous action; of a mixed one
    the choices of each part, and how many numbers follow them"""
    shape: tuple[int, ...]
    """of one action: () for a discrete one"""

    @property
    def width(self) -> int:
        """How many outputs of the network describe the distribution of one action."""
        return sum(self.sizes)

    @property
    def choices(self) -> tuple[int, ...]:
        """How many there are in each part that chooses."""
        return self.sizes[:-1] if self.numbers else self.sizes

    @property
    def numbers(self) -> int:
        """How many numbers of an action are continuous."""
        return self.sizes[-1] if self.kind in ("continuous", "mixed") else 0

    @property
    def dtype(self) -> type[np.generic]:
        """Of the action arrays."""
        return np.float32 if self.numbers else np.int64


def actions_of(space: Space[Any]) -> Actions:
    """The actions of this space, or an error that says which spaces have a distribution here."""
    if isinstance(space, spaces.Discrete):
        return Actions("discrete", (int(space.n),), ())
    if isinstance(space, spaces.MultiDiscrete):
        sizes = tuple(int(n) for n in np.asarray(space.nvec).ravel())
        return Actions("multidiscrete", sizes, tuple(np.asarray(space.nvec).shape))
    if isinstance(space, MixedBox):
        return Actions("mixed", (*space.choices, space.numbers), tuple(space.shape))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Actions("continuous", (prod(space.shape),), tuple(space.shape))
    way_out = "write it as one of these in a wrapper of the environment"
    if isinstance(space, spaces.MultiBinary):
        way_out = f"write it as MultiDiscrete([2] * {prod(space.shape)})"
    raise BuildError(
        "a policy can act in Discrete, MultiDiscrete and floating-point Box action spaces; "
        f"found {space}: {way_out}"
    )
