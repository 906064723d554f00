"""What is wrong with the choices of a `PolicySpec`, each with the way out."""

from __future__ import annotations

from difflib import get_close_matches
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import spaces

from rillflow.errors import BuildError
from rillflow.images import CHANNELS, image_in
from rillflow.policies.memory_choice import check_memory

if TYPE_CHECKING:
    from rillflow.policies.spec import PolicySpec


def below_memory(spec: PolicySpec) -> Literal["mlp", "cnn"]:
    """What the older spelling of a memory has below it."""
    if spec.layout is not None:
        return "cnn" if spec.packed else "mlp"
    space: Any = spec.observation_space
    seen = isinstance(space, spaces.Box) and image_in(space, spec.channels) is not None
    return "cnn" if seen else "mlp"


def check_choices(spec: PolicySpec) -> None:
    """Refuse names that there are not."""
    choices = {
        "activation": ("tanh", "relu"),
        "model": ("mlp", "cnn", "lstm"),
        "head": ("actor_critic", "q", "squashed_gaussian", "deterministic"),
        "channels": CHANNELS,
    }
    for name, valid in choices.items():
        found = getattr(spec, name)
        if found in valid or (name == "model" and callable(found)):
            continue
        near = get_close_matches(str(found), valid, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if name == "model" and not isinstance(found, str):
            hint = ", or a function that takes the spec and returns a torch.nn.Module"
        raise BuildError(f"{name} must be one of {', '.join(valid)}, got {found!r}{hint}")
    check_memory(spec)


def check_sizes(spec: PolicySpec) -> None:
    """Refuse widths that are none."""
    if not isinstance(spec.hidden, tuple) or not all(_positive(width) for width in spec.hidden):
        raise BuildError(
            f"hidden must be a tuple of positive whole numbers, such as (64, 64); "
            f"got {spec.hidden!r}"
        )
    for name in ("image_features", "memory_size"):
        found = getattr(spec, name)
        if not _positive(found) and not (name == "image_features" and found is None):
            raise BuildError(f"{name} must be a positive number, got {found!r}")


def _positive(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0


def check_head(spec: PolicySpec) -> None:
    """Refuse a head that the actions do not fit."""
    kind = spec.actions.kind
    if spec.head == "q" and kind == "continuous":
        raise BuildError(
            "head='q' has one output per action and cannot enumerate the continuous actions of "
            f"{spec.action_space}; use an actor-critic method (PPO, A2C, A3C, IMPALA), "
            "head='actor_critic', or make the actions discrete"
        )
    if spec.head == "q" and kind == "multidiscrete":
        raise BuildError(
            f"head='q' needs a Discrete action space, found {spec.action_space}; use an "
            "actor-critic method (PPO, A2C, A3C, IMPALA), head='actor_critic', or number all "
            f"combinations: Discrete({prod(spec.actions.sizes)})"
        )
    if spec.bounded:
        _check_bounds(spec)
    if spec.dueling and spec.head != "q":
        raise BuildError(f"dueling=True splits q values and needs head='q', found {spec.head!r}")


def _check_bounds(spec: PolicySpec) -> None:
    space: Any = spec.action_space
    if spec.actions.kind != "continuous":
        raise BuildError(
            f"head={spec.head!r} gives continuous actions, found {space}: use an algorithm for "
            "discrete actions (DQN, PPO, ...)"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise BuildError(
            f"head={spec.head!r} squeezes actions into their bounds, and {space} has none on some "
            "side: give it bounds (gymnasium.wrappers.RescaleAction), or use PPO"
        )
    if not (space.low < space.high).all():
        raise BuildError(
            f"head={spec.head!r} stretches actions between their bounds, and in {space} some are "
            "the same below and above: leave those parts of an action out, or use PPO"
        )


def check_observations(spec: PolicySpec) -> None:
    """Refuse observations that the network cannot see."""
    space = spec.observation_space
    if not isinstance(space, spaces.Box):
        raise BuildError(
            f"a policy takes observations of a Box, found {space}: encode them as one vector first"
        )
    if spec.scale_observations:
        _check_scale(spec)
    if spec.normalize_observations:
        _check_normalize(spec)
    if not isinstance(spec.model, str):
        return  # your own network may take any array
    if spec.layout is not None:
        _check_parts(spec)
        return
    if space.dtype != np.uint8 and not np.issubdtype(space.dtype, np.floating):
        raise BuildError(
            f"observations must be floating-point numbers or images of uint8, found {space}: "
            "convert them to float32, or images to uint8, first"
        )
    if spec.model == "cnn" and spec.image is None:
        raise BuildError(
            "model='cnn' takes images, which have two or three axes (pixels are scaled inside), "
            f"found {space}: use model='mlp'"
        )


def _check_parts(spec: PolicySpec) -> None:
    if spec.model == "mlp" and spec.packed:
        raise BuildError(
            f"model='mlp' takes vectors, and there are images in {spec.layout}: use model='cnn'"
        )
    if spec.model == "cnn" and not spec.packed:
        raise BuildError(
            f"model='cnn' takes images, and there are none in {spec.layout}: use model='mlp'"
        )


def _check_scale(spec: PolicySpec) -> None:
    if not isinstance(spec.model, str) or spec.image:
        who = "images, whose pixels are always scaled" if spec.image else "a network of your own"
        raise BuildError(f"scale_observations=True is for vectors, not for {who}: leave it out")
    scale = spec.observation_scale
    if scale is not None and not scale[0].any() and (scale[1] == 1).all():
        raise BuildError(
            f"scale_observations=True scales what has bounds, and {spec.observation_space} has none"
            " beside -1 and 1: leave it out, or wrap the environment in one that scales"
        )


def _check_normalize(spec: PolicySpec) -> None:
    if spec.scale_observations:
        raise BuildError(BOTH_SCALED)
    if spec.image or spec.packed:
        raise BuildError(
            "normalize_observations=True is for vectors, not for images, whose pixels are always "
            f"scaled, found {spec.observation_space}: leave it out"
        )


BOTH_SCALED = (
    "normalize_observations=True measures what scale_observations=True takes from the bounds of "
    "the space: set one of the two to False (an environment's own settings may have the second)"
)
