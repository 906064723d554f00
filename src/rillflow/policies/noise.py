"""Noise of layers that explore by it (Fortunato et al. 2017, arXiv:1706.10295). Free of torch.

A layer has beside each weight how noisy it is, its sigma: `weight` and `weight_sigma`, `bias` and
`bias_sigma`. Noise is factorised: one number for each input and each output, whose products are the
noise of the weights. Without noise such a layer is the linear layer of its weights and biases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Pair = tuple[Floats, Floats]
"""the noise of the outputs and of the inputs of a layer"""

SIGMA = "_sigma"
"""behind the name of a weight: how noisy it is"""


class Noise:
    """Draws the noise of some layers, always in one order: both frameworks draw the same.

    Args:
        sizes: outputs and inputs of each layer.
    """

    def __init__(self, sizes: Sequence[tuple[int, int]]) -> None:
        self._sizes = [tuple(size) for size in sizes]
        flat = [width for size in self._sizes for width in size]
        ends = np.cumsum([0, *flat]).tolist()
        self._slices = [slice(begin, end) for begin, end in pairwise(ends)]
        self._total = int(ends[-1])

    def draw(self, rng: np.random.Generator) -> list[Pair]:
        """Noise of each layer."""
        drawn = rng.standard_normal(self._total, dtype=np.float32)
        # the root keeps products of two of them from having heavy tails
        drawn = np.copysign(np.sqrt(np.abs(drawn)), drawn)
        parts = [drawn[part] for part in self._slices]
        return list(zip(parts[::2], parts[1::2], strict=True))


def sizes_in(shapes: Mapping[str, tuple[int, ...]]) -> list[tuple[int, int]]:
    """Outputs and inputs of the noisy layers among weights of these names, in their order.

    >>> sizes_in({"a.weight": (2, 3), "a.weight_sigma": (2, 3), "b.weight": (4, 5)})
    [(2, 3)]
    """
    found = [shape for name, shape in shapes.items() if name.endswith(f".weight{SIGMA}")]
    return [(outputs, inputs) for outputs, inputs in found]


def sigma_shapes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of linear layers' weights, and of how noisy they are."""
    return {**shapes, **{f"{name}{SIGMA}": shape for name, shape in shapes.items()}}


def first_sigmas(shapes: Mapping[str, tuple[int, ...]], sigma0: float) -> dict[str, Floats]:
    """How noisy layers are at first: `sigma0` by the root of their inputs."""
    found: dict[str, Floats] = {}
    for name, shape in shapes.items():
        if name.endswith(SIGMA):
            inputs = shapes[f"{name.rpartition('.')[0]}.weight{SIGMA}"][1]
            found[name] = np.full(shape, sigma0 / np.sqrt(inputs), np.float32)
    return found
