"""Distributions of returns over atoms, in NumPy: numbers at equal distances, each with a chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def atoms_of(v_min: float, v_max: float, count: int) -> Floats:
    """The returns that a distribution tells the chances of.

    >>> atoms_of(0.0, 1.0, 3)
    array([0. , 0.5, 1. ], dtype=float32)
    """
    return np.linspace(v_min, v_max, count, dtype=np.float32)


def chances(logits: Floats, axis: int) -> Floats:
    """Chances that add up to 1 along an axis; a new array."""
    raised: Floats = np.exp(logits - np.maximum.reduce(logits, axis, keepdims=True))
    raised /= np.add.reduce(raised, axis, keepdims=True)
    return raised


def expected(logits: Floats, atoms: Floats) -> Floats:
    """The means [actions, N] of distributions [actions, atoms, N]."""
    means: Floats = np.matmul(atoms, chances(logits, 1))
    return means


def dueling(advantages: Floats, value: Floats) -> Floats:
    """Logits [actions, atoms, N] of a dueling network, which has both by atoms."""
    mean: Floats = np.add.reduce(advantages, 0) * np.float32(1 / len(advantages))
    return advantages + (value - mean)
