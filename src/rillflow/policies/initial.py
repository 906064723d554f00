"""The numbers a network starts from: a function of names, shapes and a seed. NumPy alone.

Being free of torch it gives an actor the learner's first weights without importing it, and being
keyed by name it gives a layer the same numbers whatever else the network contains.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rillflow.policies.blas import blas_threads
from rillflow.policies.noise import first_sigmas

if TYPE_CHECKING:
    from rillflow.policies.spec import PolicySpec

Weights = dict[str, NDArray[np.float32]]

TRUNK_GAIN = math.sqrt(2)
SMALL_GAIN = 0.01
"""of a policy's outputs: it starts near uniform, so that its first steps are not its prejudices"""


def initial_weights(
    shapes: Mapping[str, tuple[int, ...]], seed: int, small_action_head: bool = True
) -> Weights:
    """Orthogonal matrices and zero biases for parameters of these names and shapes.

    Gains are the usual ones (Andrychowicz et al. 2020, arXiv:2006.05990): sqrt(2) in the trunk,
    0.01 at the outputs of a policy, 1 at values and inside a memory.

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


def weights_at_first(spec: PolicySpec, shapes: Mapping[str, tuple[int, ...]], seed: int) -> Weights:
    """First weights of a policy of this spec, for parameters of these names and shapes."""
    if spec.bounded:
        return uniform_weights(shapes, seed)
    if spec.noisy:
        sigmas = first_sigmas(shapes, spec.noisy)
        means = {name: shape for name, shape in shapes.items() if name not in sigmas}
        return initial_weights(means, seed, small_action_head=False) | sigmas
    weights = initial_weights(shapes, seed, small_action_head=spec.head != "q")
    if spec.mean_units is not None:
        weights["log_std"] = np.log(spec.mean_units[1][-spec.actions.numbers :])
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
    # OpenBLAS takes all cores for one of more than 64 columns: on a busy machine 77 ms, not 0.7
    with blas_threads(1) if min(normal.shape) > 64 else nullcontext():
        q, r = np.linalg.qr(normal)
    # without the signs of r's diagonal q would not be uniformly distributed (Mezzadri 2007)
    q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)
    matrix = q.T if rows < columns else q
    return np.ascontiguousarray(gain * matrix, dtype=np.float32).reshape(shape)


def uniform_weights(
    shapes: Mapping[str, tuple[int, ...]], seed: int | list[int], last: float | None = None
) -> Weights:
    """Uniform numbers within one over the root of the inputs, as torch gives linear layers.

    It is what actors and critics of continuous actions are usually begun with. Of stacked layers,
    [copies, ...], each copy has numbers of its own.

    Args:
        shapes: names and shapes of the parameters; a `name.bias` stands beside its `name.weight`.
        seed: the same seed gives the same numbers.
        last: the bound for heads, if another.
    """
    weights: Weights = {}
    for name, shape in shapes.items():
        part = name.rpartition(".")[0]
        bound = 1 / math.sqrt(shapes[f"{part}.weight"][-1])
        if last is not None and part.endswith("head"):
            bound = last
        keys = [seed] if isinstance(seed, int) else seed
        rng = np.random.default_rng([*keys, zlib.crc32(name.encode())])
        weights[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
    return weights


def _gain(name: str, small_action_head: bool) -> float:
    part = name.split(".")[0]
    if part == "action_head":
        return SMALL_GAIN if small_action_head else 1.0
    return 1.0 if part in ("value_head", "lstm", "gru") else TRUNK_GAIN
