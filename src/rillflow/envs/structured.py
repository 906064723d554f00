"""Observations of several parts, or with a mask of actions, as one array and a layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from rillflow.envs.image_change import change_between
from rillflow.envs.layout import MASK, Array, Layout, Part, Tree
from rillflow.envs.spaces import Observations, is_whole, lone
from rillflow.errors import BuildError
from rillflow.images import image_in

if TYPE_CHECKING:
    from gymnasium.spaces import Space


def structured(
    space: Space[Any], name: str, choices: int = 0, *, masked: bool = False
) -> Observations:
    """The encoder for a space of several parts; see `spaces.observations_of`."""
    # `in` would ask whether a key is an element of the space
    inside = choices > 0 and not masked and isinstance(space, spaces.Dict) and MASK in space.keys()  # noqa: SIM118
    if inside:
        space = _without_mask(space, name, choices)
    layout = Layout(_tree(space, name), choices if inside or masked else 0, mask_inside=inside)
    return Observations(layout.space, encoder(layout))


def encoder(layout: Layout) -> Any:
    """What makes the array of a raw batch, and of its masks if they come beside it."""
    encoders = {path: _of_part(part) for path, part in layout.parts.items()}

    def encode(raw: Any, mask: Array | None = None) -> Array:
        pieces = {path: one(_at(raw, path)) for path, one in encoders.items()}
        rows = len(next(iter(pieces.values())))
        if layout.mask_inside:
            mask = flat_masks(raw[MASK], rows)
        if layout.mask_size and mask is None:
            raise ValueError(f"these observations have a mask of {layout.mask_size} choices")
        return layout.join(pieces, mask, rows)

    return encode


def _of_part(part: Part) -> Callable[[Any], Array]:
    """What encodes a part of a batch; an image that is seen smaller is made so."""
    own = lone(part.raw, "").encode
    change = change_between(part.raw, part.space) if part.kind == "image" else None
    return own if change is None else lambda raw: change(own(raw))


def encode_batch(layout: Layout, obs: Any, masks: Any = None) -> tuple[Array, bool]:
    """Observations of an environment itself as the array of a policy; and whether it was but one.

    Args:
        layout: of the policy.
        obs: one observation, or a batch of them in the same structure.
        masks: which actions are allowed, if the environment says it in its infos.
    """
    path, part = next(iter(layout.parts.items()))
    single = np.ndim(_at(obs, path)) == len(part.raw.shape or ())
    if single:
        obs = _deep(obs)
        masks = None if masks is None else flat_masks(masks)[None]
    elif masks is not None:
        masks = flat_masks(masks, len(_at(obs, path)))
    if layout.mask_size and not layout.mask_inside and masks is None:
        masks = np.ones((len(_at(obs, path)), layout.mask_size), bool)
    return encoder(layout)(obs, masks), single


def flat_masks(raw: Any, rows: int | None = None) -> Array:
    """Masks as environments give them, one for each of `rows`, as [rows, choices] of truth values.

    That of several choices may be a tuple, with an array for each of them.
    """
    lead = () if rows is None else (rows,)
    if isinstance(raw, Mapping):
        raw = tuple(raw.values())
    if isinstance(raw, tuple | list):
        return np.concatenate([flat_masks(one, rows) for one in raw], axis=-1)
    return np.asarray(raw).reshape(*lead, -1) > 0


def _without_mask(space: Any, name: str, choices: int) -> Any:
    raw = space[MASK]
    size = spaces.flatdim(raw)
    numbers = isinstance(raw, spaces.Box | spaces.MultiBinary | spaces.Tuple | spaces.Dict)
    if size != choices or not numbers:
        raise BuildError(
            f"environment {name!r}: observation[{MASK!r}] says which actions are allowed, so it "
            f"must be a Box or MultiBinary of {choices} numbers, one for each choice of an action; "
            f"found {raw}. If it is something else, set action_masks=False"
        )
    others = {key: part for key, part in space.items() if key != MASK}
    if not others:
        raise BuildError(
            f"environment {name!r}: its observations hold {MASK!r} and nothing else to act on"
        )
    return spaces.Dict(others)


def _tree(space: Space[Any], name: str) -> Tree:
    if isinstance(space, spaces.Dict):
        return {key: _tree(part, f"{name}[{key!r}]") for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_tree(part, f"{name}[{i}]") for i, part in enumerate(space))
    box = lone(space, name).space
    if is_whole(box):
        if image_in(box) is not None:
            return Part("image", box, space)
        low, high = box.low.astype(np.float32), box.high.astype(np.float32)
        box = spaces.Box(low, high, dtype=np.float32)  # a small table is numbers
    return Part("vector" if isinstance(space, spaces.Box) else "one_hot", box, space)


def _at(raw: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        raw = raw[key]
    return raw


def _deep(raw: Any) -> Any:
    """One observation as a batch of one."""
    if isinstance(raw, Mapping):
        return {key: _deep(value) for key, value in raw.items()}
    if isinstance(raw, tuple):
        return tuple(_deep(value) for value in raw)
    return np.asarray(raw)[None]
