"""Actions of several parts: a policy's flat action, and the Dict or Tuple it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from rillflow.envs.spaces import Actions, Array, actions_of, choices_of
from rillflow.errors import BuildError

if TYPE_CHECKING:
    from gymnasium.spaces import Space

Path = tuple[Any, ...]


def composed(space: Space[Any], name: str) -> Actions:
    """The decoder for a Dict or Tuple: choices become one MultiDiscrete, numbers one Box."""
    leaves = dict(_leaves(space, name, ()))
    if not leaves:
        raise BuildError(f"environment {name!r}: its action space {space} has no parts to act with")
    if len(leaves) == 1:
        (only,) = leaves.values()
        return Actions(only.space, lambda actions: _built(space, leaves, [actions]))
    chosen = [bool(choices_of(leaf.space)) for leaf in leaves.values()]
    if any(chosen) and not all(chosen):
        raise BuildError(
            f"environment {name!r}: its action space {space} mixes choices and continuous numbers, "
            "and a policy has a distribution over one kind. Divide the range of each number into "
            "steps (a Discrete of values), or make the choices numbers of a Box that the "
            "environment rounds, in a gymnasium.ActionWrapper"
        )
    sizes = [prod(leaf.space.shape or ()) for leaf in leaves.values()]
    cuts = np.cumsum(sizes)[:-1]

    def to_env(actions: Array) -> Any:
        pieces = np.split(actions.reshape(len(actions), -1), cuts, axis=1)
        return _built(space, leaves, pieces)

    return Actions(_joined([leaf.space for leaf in leaves.values()]), to_env)


def _joined(parts: list[Space[Any]]) -> Space[Any]:
    if choices_of(parts[0]):
        return spaces.MultiDiscrete([n for part in parts for n in choices_of(part)])
    low, high = (
        np.concatenate([np.ravel(getattr(part, side)).astype(np.float32) for part in parts])
        for side in ("low", "high")
    )
    return spaces.Box(low, high, dtype=np.float32)


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
    taken = {
        path: leaf.to_env(piece.reshape(len(piece), *(leaf.space.shape or ())))
        for (path, leaf), piece in zip(leaves.items(), pieces, strict=True)
    }
    return _nested(space, taken, ())


def _nested(space: Space[Any], taken: dict[Path, Array], path: Path) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _nested(part, taken, (*path, key)) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_nested(part, taken, (*path, i)) for i, part in enumerate(space))
    return taken[path]
