"""Whether numbers are finite: asked of every step of an environment, and of every action."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def finite(numbers: npt.NDArray[Any]) -> bool:
    """Whether all numbers of an array are finite; of a few, in half the time of `all`.

    >>> finite(np.array([1.0, 2.0])), finite(np.array([1.0, np.inf])), finite(np.array([np.nan]))
    (True, False, False)
    """
    return b"\0" not in np.isfinite(numbers).tobytes()
