"""Values on a smaller scale, in NumPy; `rescaling` says what they are.

Both are written without differences of numbers that are almost equal: of float32, the formulas as
the paper has them lose half of the digits where epsilon is small. Of u = sqrt(|h^-1(x)| + 1), which
solves epsilon u^2 + u = |x| + 1 + epsilon, is h^-1(x) = x (u + 1) / (epsilon (u + 1) + 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.learning.losses.checks_in_numpy import FLOAT, array_of, check_floats
from rillflow.learning.losses.node import node
from rillflow.learning.tape import Array, Var
from rillflow.policies.shape_checks import check_not_negative


def rescaled(x: Var | Array, epsilon: float = 1e-3) -> Any:
    """`rescaling.rescaled`."""
    values = _checked("rescaled", x, epsilon)
    root = np.sqrt(np.abs(values) + 1.0)
    found = values / (root + 1.0) + epsilon * values
    return node(found, x, lambda g: g * (0.5 / root + epsilon))


def unscaled(x: Var | Array, epsilon: float = 1e-3) -> Any:
    """`rescaling.unscaled`."""
    values = _checked("unscaled", x, epsilon)
    above = np.abs(values) + (1.0 + epsilon)
    root = 2.0 * above / (np.sqrt(1.0 + 4.0 * epsilon * above) + 1.0)
    found = values * (root + 1.0) / (epsilon * (root + 1.0) + 1.0)
    return node(found, x, lambda g: g / (0.5 / root + epsilon))


def _checked(where: str, x: Var | Array, epsilon: float) -> Array:
    values: Array = array_of(x)
    if values.dtype is not FLOAT:
        check_floats(where, x=x)
    if not epsilon >= 0:
        check_not_negative(where, epsilon=epsilon)
    return values
