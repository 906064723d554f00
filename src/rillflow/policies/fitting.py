"""Whether saved weights are those of a network, found without making the network."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from rillflow.errors import BuildError, RunError
from rillflow.policies.spec import PolicySpec, Shape
from rillflow.policies.weights import check_weights

_MODEST = 1 << 24
"""weights that a network of the user's own may have, however few are in the file"""


def check_fit(spec: PolicySpec, weights: Mapping[str, NDArray[Any]]) -> None:
    """Refuse weights of another network before one of the spec's size takes any memory.

    A network of the user's own cannot be known before it is made. What the spec says of its layers
    has to be in proportion to the weights.
    """
    if not isinstance(spec.model, str):
        _check_proportion(spec, sum(array.size for array in weights.values()))
        return
    needed = spec.acting_names if spec.plain else None
    try:
        check_weights(weights, network_shapes(spec), needed)
    except RunError as error:
        raise BuildError(str(error)) from None


def network_shapes(spec: PolicySpec) -> dict[str, Shape]:
    """Names and shapes of the weights of a built-in network."""
    if spec.plain:
        return spec.weight_shapes
    import torch

    from rillflow.policies.make_model import built_in

    with torch.device("meta"):  # shapes without numbers
        network = built_in(spec)
    shapes = {name: tuple(weight.shape) for name, weight in network.named_parameters()}
    return shapes | spec.buffer_shapes


def _check_proportion(spec: PolicySpec, count: int) -> None:
    widths = (spec.observation_size, *spec.hidden, spec.actions.width)
    largest = max(
        *(left * right for left, right in pairwise(widths)),
        spec.memory_size**2,
        (spec.image_features or 1) ** 2,
    )
    if largest > max(_MODEST, 4 * count):
        raise BuildError(
            f"layers of {largest:,} weights, as this policy describes its network, and {count:,} "
            "weights in its file: it was not saved by the network that it names."
        )
