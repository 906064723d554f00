"""From many numbers to few, in NumPy; `reduce` says what each function means."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rillflow.learning import tape
from rillflow.learning.losses.checks_in_numpy import (
    FLOAT,
    array_of,
    check_floats,
    check_mask,
)
from rillflow.learning.losses.node import node
from rillflow.learning.tape import Array, Number, Var
from rillflow.policies.shape_checks import check_ensemble


def average(terms: Array, mask: Array | None) -> tuple[Number, float]:
    """A mean, and how much each entry that counts has in it."""
    if mask is None:
        share = 1.0 / (terms.size or 1)
        return np.add.reduce(terms, None) * share, share
    check_mask(mask, terms)
    share = 1.0 / max(1, int(np.count_nonzero(mask)))
    return np.add.reduce(kept(terms, mask), None) * share, share


def kept(slope: Any, mask: Array | None) -> Any:
    """A slope where its entry counts, else nothing: not even what is not finite."""
    if mask is None:
        return slope
    inside = slope.copy("K")
    np.putmask(inside, ~mask, 0)  # of a few hundred entries in half the time of `where`
    return inside


def masked_mean(x: Var | Array, mask: Array | None = None) -> Any:
    """`reduce.masked_mean`."""
    values = array_of(x)
    if values.dtype is not FLOAT:
        check_floats("masked_mean", x=x)
    value, share = average(values, mask)
    if mask is None:
        return node(value, x, lambda g: g * share)
    return node(value, x, lambda g: mask.astype(np.float32) * (g * share))


def mean(x: Var | Array | float, mask: Array | None = None) -> Any:
    """`reduce.mean`."""
    if mask is None and not tape.shape_of(tape.value_of(x)):
        return x
    return masked_mean(x, mask)  # type: ignore[arg-type]  # it is no number


def standardized(x: Var | Array, mask: Array | None = None) -> Array:
    """`reduce.standardized`."""
    values = array_of(x)
    if values.dtype is not FLOAT:
        check_floats("standardized", x=x)
    if mask is not None:
        check_mask(mask, values)
        inside: Array = np.zeros_like(values)
        inside[mask] = standardized(values[mask])
        return inside
    n = values.size
    if n < 2:
        return np.zeros_like(values)
    result: Array = values - np.add.reduce(values, None) * (1.0 / n)
    result *= 1.0 / (math.sqrt(np.vdot(result, result) / (n - 1)) + 1e-8)
    return result


def minimum(a: Any, b: Any) -> Any:
    """`reduce.minimum`."""
    for name, x in (("a", a), ("b", b)):
        if array_of(x).dtype is not FLOAT and not isinstance(x, (float, int)):
            check_floats("minimum", **{name: x})
    return tape.minimum(a, b)


def lowest(q: Var | Array) -> Any:
    """`reduce.lowest`."""
    values = array_of(q)
    if not (values.dtype is FLOAT and values.ndim == 2 and len(values)):
        check_floats("lowest", q=q)
        check_ensemble("lowest", q=values)
    least = np.minimum.reduce(values, 0)

    def pull(g: Any) -> Array:
        found: Array = (values == least).astype(values.dtype)
        if np.count_nonzero(found) > least.size:
            found /= np.add.reduce(found, 0)  # several are the least: they share it
        found *= g
        return found

    return node(least, q, pull)
