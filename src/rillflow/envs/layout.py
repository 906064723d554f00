"""Of what parts an observation is made, although it travels as one array.

Batches, replay and shared memory know one array per step. A policy reads the parts where it needs
them: `Layout.split` gives them back in the environment's own structure, `Layout.mask` says which
actions are allowed. In the array lie first all numbers, in the order of the space, then pictures,
then the mask. Without pictures it is a vector of float32; with pictures it is bytes, four of them
for each number, so that pictures stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Space, Tuple

from rillflow.envs.finite import finite

Array = npt.NDArray[Any]
Kind = Literal["vector", "one_hot", "image"]
Tree: TypeAlias = "dict[Any, Tree] | tuple[Tree, ...] | Part"

MASK = "action_mask"
"""the key under which observations and infos hold a mask, as Gymnasium and PettingZoo have it"""


@dataclass(frozen=True)
class Part:
    """One part of an observation, as a network is given it."""

    kind: Kind
    """numbers, the index of a discrete value as zeros and a one, or a picture of uint8"""
    space: Box
    raw: Space[Any]
    """what the environment itself says of it"""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one observation's part."""
        return tuple(self.space.shape)

    @property
    def size(self) -> int:
        """How many numbers, or pixels, it has."""
        return prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """The parts of an observation, and the mask behind them."""

    tree: Tree
    """the parts in the environment's structure: dicts, tuples, or one part alone"""
    mask_size: int = 0
    """choices that a mask allows or forbids; 0: there is no mask"""
    mask_inside: bool = False
    """whether the mask comes in the observation, under `MASK`, and not in the info"""

    @cached_property
    def parts(self) -> dict[tuple[Any, ...], Part]:
        """Each part by its path of keys and indices."""
        return dict(_walk(self.tree, ()))

    @cached_property
    def vectors(self) -> dict[tuple[Any, ...], Part]:
        """The parts that are numbers."""
        return {path: part for path, part in self.parts.items() if part.kind != "image"}

    @cached_property
    def images(self) -> dict[tuple[Any, ...], Part]:
        """The parts that are pictures."""
        return {path: part for path, part in self.parts.items() if part.kind == "image"}

    @property
    def packed(self) -> bool:
        """Whether the array is bytes, because there are pictures."""
        return bool(self.images)

    @property
    def structured(self) -> bool:
        """Whether there are dicts or tuples; else it is one part with a mask."""
        return not isinstance(self.tree, Part)

    @cached_property
    def numbers(self) -> int:
        """How many numbers there are, without pixels and the mask."""
        return sum(part.size for part in self.vectors.values())

    @cached_property
    def plain(self) -> npt.NDArray[np.bool_]:
        """Which of the numbers are measured, not zeros and ones that stand for a discrete value."""
        parts = self.vectors.values()
        return np.concatenate(
            [np.zeros(0, bool), *(np.full(part.size, part.kind == "vector") for part in parts)]
        )

    @cached_property
    def bounds(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """The least and the largest value of each of the numbers."""
        none = np.zeros(0, np.float32)
        spaces = [part.space for part in self.vectors.values()]
        low = np.concatenate([none, *(space.low.ravel().astype(np.float32) for space in spaces)])
        high = np.concatenate([none, *(space.high.ravel().astype(np.float32) for space in spaces)])
        return low, high

    @cached_property
    def length(self) -> int:
        """Of the array: numbers and mask, or the bytes of all."""
        pixels = sum(part.size for part in self.images.values())
        return self.numbers * (4 if self.packed else 1) + pixels + self.mask_size

    @property
    def space(self) -> Structured:
        """Of the array."""
        return Structured(self)

    @property
    def seen(self) -> Space[Any]:
        """Of what a network is given: the parts in their structure."""
        return _space(self.tree)

    # -- from the array to its parts, for NumPy and torch, whatever axes are in front -----------

    def split(self, obs: Any) -> Any:
        """The parts in the environment's structure, without the mask."""
        pieces = self.pieces(obs)
        return rebuilt(self.tree, lambda path: pieces[path])

    def pieces(self, obs: Any) -> dict[tuple[Any, ...], Any]:
        """Each part by its path, in its own shape."""
        lead = obs.shape[:-1]
        found = {}
        vector, begin = self.vector(obs), 0
        for path, part in self.vectors.items():
            piece = vector[..., begin : begin + part.size]
            found[path] = piece.reshape(*lead, *part.shape)
            begin += part.size
        begin = 4 * self.numbers
        for path, part in self.images.items():
            piece = obs[..., begin : begin + part.size]
            found[path] = piece.reshape(*lead, *part.shape)
            begin += part.size
        return found

    def vector(self, obs: Any) -> Any:
        """All numbers, [..., numbers]."""
        if not self.packed:
            return obs if self.numbers == self.length else obs[..., : self.numbers]
        piece = obs[..., : 4 * self.numbers]
        if isinstance(obs, np.ndarray):
            return piece.copy().view(np.float32)
        import torch  # it is imported where there are tensors

        if not self.numbers:  # there is nothing to look at as something else
            return piece.float()
        return piece.clone(memory_format=torch.contiguous_format).view(torch.float32)

    def mask(self, obs: Any) -> Any:
        """Which choices are allowed, [..., mask_size]; of a layout without a mask, None."""
        return obs[..., self.length - self.mask_size :] > 0 if self.mask_size else None

    # -- from parts to the array ---------------------------------------------------------------

    def join(self, pieces: Mapping[tuple[Any, ...], Array], mask: Array | None, rows: int) -> Array:
        """The array [rows, length] of parts [rows, ...] and a mask [rows, mask_size]."""
        # numbers that are no float32 were made so by those who encoded them
        flat = [pieces[path].reshape(rows, -1) for path in self.vectors]
        if not self.packed:
            columns = [*flat, *([] if mask is None else [mask.astype(np.float32)])]
            return np.concatenate(columns, axis=1, dtype=np.float32)
        numbers = [np.ascontiguousarray(x, np.float32).view(np.uint8) for x in flat]
        pixels = [pieces[path].reshape(rows, -1) for path in self.images]
        last = [] if mask is None else [mask.astype(np.uint8)]
        return np.concatenate([*numbers, *pixels, *last], axis=1)

    def invented(self, lead: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Random observations [*lead, length]; their masks allow all, or each second choice."""
        rows = prod(lead)
        pieces = {path: _random(part, rows, rng) for path, part in self.parts.items()}
        mask = None
        if self.mask_size:
            mask = (np.arange(self.mask_size) % 2 == 0) | (rng.random((rows, 1)) < 0.5)
        return self.join(pieces, mask, rows).reshape(*lead, self.length)

    def __str__(self) -> str:
        parts = [f"{named(path)} {_shown(part)}" for path, part in self.parts.items()]
        if self.mask_size:
            parts.append(f"a mask of {self.mask_size} choices")
        return ", ".join(parts)


class Structured(Box):
    """The space of an array that is made of parts."""

    def __init__(self, layout: Layout) -> None:
        if layout.packed:
            super().__init__(0, 255, (layout.length,), np.uint8)
        else:
            low, high = layout.bounds
            zeros, ones = (make(layout.mask_size, np.float32) for make in (np.zeros, np.ones))
            super().__init__(np.append(low, zeros), np.append(high, ones), dtype=np.float32)
        self.layout = layout

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and getattr(other, "layout", None) == self.layout

    def __repr__(self) -> str:
        return f"Structured({self.layout})"


def layout_of(space: Space[Any]) -> Layout | None:
    """The layout of an array's space; None: it is not made of parts."""
    return getattr(space, "layout", None)


def all_finite(obs: Array, layout: Layout | None) -> bool:
    """Whether all numbers in an array of observations are finite."""
    numbers = layout.vector(obs) if layout is not None and layout.packed else obs
    return numbers.dtype != np.float32 or finite(numbers)


def named(path: tuple[Any, ...], whole: str = "observation") -> str:
    """A part's name: that of the whole, then its keys and indices.

    >>> named(("arm", 0)), named(())
    ('observation.arm.0', 'observation')
    """
    return ".".join([whole, *map(str, path)])


def rebuilt(tree: Tree, leaf: Callable[[tuple[Any, ...]], Any], at: tuple[Any, ...] = ()) -> Any:
    """The structure of a tree, with what `leaf` gives for the path of each part."""
    if isinstance(tree, dict):
        return {key: rebuilt(branch, leaf, (*at, key)) for key, branch in tree.items()}
    if isinstance(tree, tuple):
        return tuple(rebuilt(branch, leaf, (*at, i)) for i, branch in enumerate(tree))
    return leaf(at)


def _walk(tree: Tree, at: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Part]]:
    if isinstance(tree, Part):
        yield at, tree
        return
    branches = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, branch in branches:
        yield from _walk(branch, (*at, key))


def _space(tree: Tree) -> Space[Any]:
    if isinstance(tree, dict):
        return Dict({key: _space(branch) for key, branch in tree.items()})
    if isinstance(tree, tuple):
        return Tuple([_space(branch) for branch in tree])
    return tree.space


def _random(part: Part, rows: int, rng: np.random.Generator) -> Array:
    shape = (rows, *part.shape)
    if part.kind == "image":
        return rng.integers(0, 256, shape, np.uint8)
    drawn = np.clip(rng.standard_normal(shape), part.space.low, part.space.high)
    return drawn.astype(np.float32)


def _shown(part: Part) -> str:
    what = {"vector": "numbers", "one_hot": "one-hot", "image": "image"}[part.kind]
    return f"{what} {'x'.join(map(str, part.shape))}"
