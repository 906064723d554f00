"""The last few observations as one: what a single image does not show, such as a direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rillflow.envs.image_box import image_box
from rillflow.images import Image

if TYPE_CHECKING:
    from gymnasium.spaces import Box

Array = npt.NDArray[Any]


class FrameStack:
    """The newest observations of each environment, oldest first, joined along one axis.

    It is the axis of the channels of an image, a new last one of an image that has none, and the
    last one of anything else. An episode begins with its first observation repeated.
    """

    def __init__(self, space: Box, count: int, image: Image | None) -> None:
        self.count = count
        self._grows = image is not None and image.order == "none"
        self._axis = 0 if image is not None and image.order == "first" else -1
        low, high = self._whole(space.low, self._axis), self._whole(space.high, self._axis)
        order: Any = None
        if image is not None:
            order = "first" if image.order == "first" else "last"
        self.space = image_box(low, high, space.dtype, order)
        """of one stacked observation"""
        self._now: Array = np.empty(0)

    @property
    def joined_first(self) -> int:
        """How many frames lie one behind the other in one observation; 1: they are woven."""
        return self.count if self._axis == 0 else 1

    def _whole(self, frames: Array, axis: int) -> Array:
        """Each frame as if it had been there all the time."""
        frames = frames[..., None] if self._grows else frames
        return np.concatenate([frames] * self.count, axis)

    def begin(self, frames: Array) -> Array:
        """The first observations everywhere."""
        self._now = self._begun(frames)
        return self._now.copy()

    def _begun(self, frames: Array) -> Array:
        return self._whole(frames, self._axis if self._axis < 0 else self._axis + 1)

    def step(
        self, obs: Array, next_obs: Array | None, begun: npt.NDArray[np.bool_]
    ) -> tuple[Array, Array | None]:
        """The same two, stacked; in rows that have `begun`, `obs` is the first of an episode."""
        after = self._pushed(obs if next_obs is None else next_obs)
        self._now = after
        if begun.any():
            self._now = after.copy()
            self._now[begun] = self._begun(obs[begun])
        return self._now.copy(), None if next_obs is None else after.copy()

    def _pushed(self, frames: Array) -> Array:
        axis = self._axis if self._axis < 0 else self._axis + 1
        frames = frames[..., None] if self._grows else frames
        width = frames.shape[axis]
        kept = np.moveaxis(np.moveaxis(self._now, axis, 0)[width:], 0, axis)
        return np.concatenate([kept, frames], axis)

    def newest(self) -> Array:
        """What was given last."""
        return self._now.copy()

    def restore(self, stacked: Array) -> None:
        """Go on from what `begin` or `step` gave last: all that was seen is in it."""
        self._now = stacked.copy()
