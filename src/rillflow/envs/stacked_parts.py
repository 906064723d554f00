"""The last few observations of several parts as one: each part is stacked by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy.typing as npt

from rillflow.envs.frame_stack import FrameStack
from rillflow.envs.layout import Array, Layout, Part, rebuilt
from rillflow.images import Channels, as_image


class StackedParts:
    """What `FrameStack` does, to the parts of an observation; a mask of actions is the newest one.

    Pictures are joined along their channels, numbers along their last axis.
    """

    def __init__(self, layout: Layout, count: int, channels: Channels) -> None:
        self.count = count
        self._single = layout
        self._stacks: dict[tuple[Any, ...], FrameStack] = {}
        parts: dict[tuple[Any, ...], Part] = {}
        for path, part in layout.parts.items():
            image = None
            if part.kind == "image":
                image = as_image(part.shape, getattr(part.space, "channels", channels))
            self._stacks[path] = stack = FrameStack(part.space, count, image)
            parts[path] = Part(part.kind, stack.space, stack.space)
        tree = rebuilt(layout.tree, lambda path: parts[path])
        self._layout = replace(layout, tree=tree)
        self.space = self._layout.space
        """of one stacked observation"""

    def begin(self, frames: Array) -> Array:
        """The first observations everywhere."""
        pieces = self._single.pieces(frames)
        begun = {path: stack.begin(pieces[path]) for path, stack in self._stacks.items()}
        self._newest = self._joined(begun, frames)
        return self._newest.copy()

    def step(
        self, obs: Array, next_obs: Array | None, begun: npt.NDArray[Any]
    ) -> tuple[Array, Array | None]:
        """The same two, stacked; in rows that have `begun`, `obs` is the first of an episode."""
        here = self._single.pieces(obs)
        after = None if next_obs is None else self._single.pieces(next_obs)
        both = {
            path: stack.step(here[path], None if after is None else after[path], begun)
            for path, stack in self._stacks.items()
        }
        self._newest = self._joined({path: pair[0] for path, pair in both.items()}, obs)
        if next_obs is None:
            return self._newest.copy(), None
        last: dict[tuple[Any, ...], Any] = {path: pair[1] for path, pair in both.items()}
        return self._newest.copy(), self._joined(last, next_obs)

    def newest(self) -> Array:
        """What was given last."""
        return self._newest.copy()

    def restore(self, stacked: Array) -> None:
        """Go on from what `begin` or `step` gave last: all that was seen is in it."""
        self._newest = stacked.copy()
        for path, piece in self._layout.pieces(stacked).items():
            self._stacks[path].restore(piece)

    def _joined(self, pieces: dict[tuple[Any, ...], Array], frames: Array) -> Array:
        return self._layout.join(pieces, self._single.mask(frames), len(frames))
