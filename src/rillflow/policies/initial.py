"""The numbers a network starts from: a function of names, shapes and a seed. NumPy alone.

Being free of torch it gives an actor the learner's first weights without importing it, and being
keyed by name it gives a layer the same numbers whatever else the network contains.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]

TRUNK_GAIN = math.sqrt(2)
SMALL_GAIN = 0.01
"""of a policy's outputs: it starts near uniform, so that its first steps are not its prejudices"""


def initial_weights(
    shapes: Mapping[str, tuple[int, ...]], seed: int, small_action_head: bool = True
) -> Weights:
    """Orthogonal matrices and zero biases for parameters of these names and shapes.

    Gains are the usual ones (Andrychowicz et al. 2020, arXiv:2006.05990): sqrt(2) in the trunk,
    0.01 at the outputs of a policy, 1 at values and inside an lstm.

    Args:
        shapes: names and shapes of the parameters.
        seed: the same seed gives the same numbers.
        small_action_head: false for q values, whose outputs are values.
    """
    weights: Weights = {}
    for name, shape in shapes.items():
        key = [seed, zlib.crc32(name.encode())]
        gain = _gain(name, small_action_head)
        matrix = len(shape) > 1
        weights[name] = orthogonal(shape, gain, key) if matrix else np.zeros(shape, np.float32)
    return weights


def orthogonal(shape: tuple[int, ...], gain: float, seed: int | list[int]) -> NDArray[np.float32]:
    """A random matrix with orthonormal rows or columns (Saxe et al. 2013, arXiv:1312.6120).

    Args:
        shape: [out, in, ...]; all axes after the first count as inputs.
        gain: what the matrix is multiplied with.
        seed: where the randomness comes from.
    """
    rows, columns = shape[0], math.prod(shape[1:])
    normal = np.random.default_rng(seed).standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(normal)
    # without the signs of r's diagonal q would not be uniformly distributed (Mezzadri 2007)
    q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)
    matrix = q.T if rows < columns else q
    return np.ascontiguousarray(gain * matrix, dtype=np.float32).reshape(shape)


def _gain(name: str, small_action_head: bool) -> float:
    part = name.split(".")[0]
    if part == "action_head":
        return SMALL_GAIN if small_action_head else 1.0
    return 1.0 if part in ("value_head", "lstm") else TRUNK_GAIN
