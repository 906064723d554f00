"""Which observations a network may see scaled by their bounds, or by what was measured of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rillflow.errors import BuildError

if TYPE_CHECKING:
    from rillflow.policies.spec import PolicySpec

BOTH_SCALED = (
    "normalize_observations=True measures what scale_observations=True takes from the bounds of "
    "the space: set one of the two to False (an environment's own settings may have the second)"
)


def check_scale(spec: PolicySpec) -> None:
    """What has bounds can be scaled by them, and nothing else."""
    if not isinstance(spec.model, str) or spec.image:
        who = "images, whose pixels are always scaled" if spec.image else "a network of your own"
        raise BuildError(f"scale_observations=True is for vectors, not for {who}: leave it out")
    scale = spec.observation_scale
    if scale is not None and not scale[0].any() and (scale[1] == 1).all():
        raise BuildError(
            f"scale_observations=True scales what has bounds, and {spec.observation_space} has none"
            " beside -1 and 1: leave it out, or wrap the environment in one that scales"
        )


def check_normalize(spec: PolicySpec) -> None:
    """Numbers are measured once, and pixels not at all."""
    if spec.scale_observations:
        raise BuildError(BOTH_SCALED)
    if spec.image or spec.packed:
        raise BuildError(
            "normalize_observations=True is for vectors, not for images, whose pixels are always "
            f"scaled, found {spec.observation_space}: leave it out"
        )
