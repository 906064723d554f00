"""Actions of several parts: a policy's flat action, and the Dict or Tuple it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from rillflow.envs.mixed_box import MixedBox
from rillflow.envs.spaces import Actions, Array, actions_of, choices_of
from rillflow.errors import BuildError

if TYPE_CHECKING:
    from gymnasium.spaces import Space

Path = tuple[Any, ...]


def composed(space: Space[Any], name: str) -> Actions:
    """The decoder for a Dict or Tuple.

    Choices alone become one MultiDiscrete and numbers alone one Box; both together a MixedBox.
    """
    leaves = dict(_leaves(space, name, ()))
    if not leaves:
        raise BuildError(f"environment {name!r}: its action space {space} has no parts to act with")
    if len(leaves) == 1:
        (only,) = leaves.values()
        return Actions(only.space, lambda actions: _built(space, leaves, [actions]))
    # a policy's choices come first; within both kinds the order is that of the space
    leaves = dict(sorted(leaves.items(), key=lambda pair: not choices_of(pair[1].space)))
    sizes = [prod(leaf.space.shape or ()) for leaf in leaves.values()]
    cuts = np.cumsum(sizes)[:-1]

    def to_env(actions: Array) -> Any:
        pieces = np.split(actions.reshape(len(actions), -1), cuts, axis=1)
        return _built(space, leaves, pieces)

    return Actions(_joined([leaf.space for leaf in leaves.values()]), to_env)


def _joined(parts: list[Space[Any]]) -> Space[Any]:
    choices = [n for part in parts for n in choices_of(part)]
    numbers = [part for part in parts if not choices_of(part)]
    if not numbers:
        return spaces.MultiDiscrete(choices)
    low, high = (
        np.concatenate([np.ravel(getattr(part, side)).astype(np.float32) for part in numbers])
        for side in ("low", "high")
    )
    return MixedBox(choices, low, high) if choices else spaces.Box(low, high, dtype=np.float32)


def _leaves(space: Space[Any], name: str, path: Path) -> Iterator[tuple[Path, Actions]]:
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            yield from _leaves(part, f"{name}[{key!r}]", (*path, key))
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space):
            yield from _leaves(part, f"{name}[{i}]", (*path, i))
    else:
        yield path, actions_of(space, name)


def _built(space: Space[Any], leaves: dict[Path, Actions], pieces: list[Array]) -> Any:
    """The environment's structure, with each part's own actions [B, *shape]."""
    taken = {}
    for (path, leaf), piece in zip(leaves.items(), pieces, strict=True):
        own = piece.reshape(len(piece), *(leaf.space.shape or ()))
        if choices_of(leaf.space) and own.dtype.kind == "f":  # they stood beside numbers
            own = np.rint(own).astype(np.int64)
        taken[path] = leaf.to_env(own)
    return _nested(space, taken, ())


def one_of(taken: Any, row: int) -> Any:
    """The action of one environment, from what a decoder gave for all of them.

    >>> one_of({"turn": (np.array([[0.5], [0.25]]),)}, 1)
    {'turn': (array([0.25]),)}
    """
    if isinstance(taken, dict):
        return {key: one_of(part, row) for key, part in taken.items()}
    if isinstance(taken, tuple):
        return tuple(one_of(part, row) for part in taken)
    return taken[row]


def _nested(space: Space[Any], taken: dict[Path, Array], path: Path) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _nested(part, taken, (*path, key)) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_nested(part, taken, (*path, i)) for i, part in enumerate(space))
    return taken[path]
