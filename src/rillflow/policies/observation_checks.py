"""Whether a policy can see what it is to see: observations, their scale, and the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from rillflow.errors import BuildError

if TYPE_CHECKING:
    from rillflow.policies.spec import PolicySpec

BOTH_SCALED = (
    "normalize_observations=True measures what scale_observations=True takes from the bounds of "
    "the space: set one of the two to False (an environment's own settings may have the second)"
)


def check_observations(spec: PolicySpec) -> None:
    """Refuse observations that the network of a spec cannot see, or not in the way it is to."""
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
    if spec.packed:
        raise BuildError(
            "normalize_observations=True is for vectors, and there are images beside the numbers "
            f"of {spec.layout}: set scale_observations=True, which takes the bounds of their "
            "spaces, or divide what has none in a wrapper (gymnasium.wrappers.TransformObservation)"
        )
    if spec.image:
        raise BuildError(
            "normalize_observations=True is for vectors, not for images, whose pixels are always "
            f"scaled, found {spec.observation_space}: leave it out"
        )
