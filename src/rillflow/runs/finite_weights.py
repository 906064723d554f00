"""Whether what was learned is made of finite numbers: nothing else is worth saving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def nonfinite(state: Any, where: str = "") -> str | None:
    """The place in a run's state of weights, or of an optimiser, that are not finite; None: none.

    >>> nonfinite({"networks": {"q": {"w": np.array([1.0, np.nan])}}, "optimisers": {}})
    'networks/q/w'

    A learner's state has networks and optimisers, that of published weights a version. Batches,
    which may hold anything, are not looked into.
    """
    if isinstance(state, list | tuple):
        inner = {str(number): value for number, value in enumerate(state)}
    elif type(state) is dict:
        inner = state
    else:
        return None
    if ("networks" in inner and "optimisers" in inner) or (
        "weights" in inner and "version" in inner
    ):
        names = ("networks", "targets", "optimisers", "weights", "target")
        return nonfinite_array({name: inner.get(name) for name in names}, where)
    found = (nonfinite(value, f"{where}/{name}".lstrip("/")) for name, value in inner.items())
    return next(filter(None, found), None)


def nonfinite_array(arrays: Any, where: str = "") -> str | None:
    """The name of the first array in a nest of mappings that holds what is not finite."""
    if isinstance(arrays, Mapping):
        found = (nonfinite_array(a, f"{where}/{name}".lstrip("/")) for name, a in arrays.items())
        return next(filter(None, found), None)
    numbers = isinstance(arrays, np.ndarray) and arrays.dtype.kind in "fc"
    return where if numbers and not np.isfinite(arrays).all() else None
