"""What an environment shows as the array that a policy sees, for those who have no `Envs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.envs.image_change import change_between
from rillflow.envs.layout import layout_of
from rillflow.envs.spaces import Array, lone
from rillflow.envs.structured import encode_batch

if TYPE_CHECKING:
    from gymnasium.spaces import Space


def as_policy_sees(space: Space[Any], obs: Any, masks: Any = None) -> tuple[Array, bool]:
    """Observations [B, *shape] of a policy's space, and whether it was but one.

    Args:
        space: what the policy sees.
        obs: one observation, or several stacked: the environment's own, or as the policy sees them.
        masks: which actions are allowed, if the environment says it in its infos.

    >>> from rillflow.envs.spaces import observations_of
    >>> from gymnasium.spaces import Discrete
    >>> as_policy_sees(observations_of(Discrete(3), "").space, 1)
    (array([[0., 1., 0.]], dtype=float32), True)
    """
    layout, raw = layout_of(space), getattr(space, "raw", None)
    if layout is not None and not _is_joined(space, obs):
        return encode_batch(layout, obs, masks)
    found = np.asarray(obs)
    if raw is None or _is_seen(space, raw, found):
        single = found.ndim == len(space.shape or ())
        return (found[None] if single else found), single
    single = found.ndim == len(raw.shape or ())
    found = found.astype(raw.dtype, copy=False)
    own, change = lone(raw, ""), change_between(raw, space)
    encoded = own.encode(found[None] if single else found)
    return (encoded if change is None else change(encoded)), single


def _is_joined(space: Space[Any], obs: Any) -> bool:
    """Whether observations of several parts are arrays as they travel inside rillflow."""
    if not isinstance(obs, np.ndarray) or obs.dtype != space.dtype:
        return False
    return obs.ndim in (1, 2) and obs.shape[-1:] == space.shape


def _is_seen(space: Space[Any], raw: Space[Any], found: Array) -> bool:
    """Whether an array is what the policy sees already: not what the environment shows."""
    seen, shown = tuple(space.shape or ()), tuple(raw.shape or ())
    if found.shape[found.ndim - len(seen) :] != seen or found.ndim not in (
        len(seen),
        len(seen) + 1,
    ):
        return False
    if len(seen) == len(shown):  # an image, or bits: its sides tell it
        return seen != shown
    return found.dtype.kind == "f"  # zeros and a one are no index
