"""Figures that few, skewed samples allow: the interquartile mean, and bootstrap intervals.

The advice of Agarwal et al. 2021, arXiv:2108.13264: the mean follows a few lucky episodes, the
median ignores most of them, and either without an interval says little.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]

RESAMPLES = 5000
COVERAGE = 0.95
_CHUNK = 4_000_000
"""numbers that are drawn at a time, so that many samples do not fill the memory"""


def mean(samples: Floats) -> Floats:
    """Over the last axis."""
    means: Floats = np.mean(samples, -1, dtype=np.float64)
    return means


def iqm(samples: Floats) -> Floats:
    """The mean of the middle half, over the last axis.

    A quarter of the samples, rounded down, is left out at either end.

    >>> float(iqm(np.array([-1000.0, 2.0, 4.0, 5000.0])))
    3.0
    """
    ordered = np.sort(np.asarray(samples, np.float64), -1)
    cut = ordered.shape[-1] // 4
    return mean(ordered[..., cut : ordered.shape[-1] - cut])


def interval(
    samples: Floats, statistic: Statistic = mean, *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[Floats, Floats]:
    """The ends of the 95% bootstrap interval of a statistic over the last axis.

    As many samples are drawn again, with replacement, as there are; the ends are the 2.5% and
    97.5% quantiles of the statistic (Efron 1979, doi:10.1214/aos/1176344552). The same seed gives
    the same interval; one sample alone gives an interval without width.
    """
    samples = np.asarray(samples, np.float64)
    count = samples.shape[-1]
    rng = np.random.default_rng(seed)
    size = max(1, _CHUNK // samples.size)
    found = []
    for begin in range(0, resamples, size):
        drawn = rng.integers(count, size=(min(size, resamples - begin), count))
        found.append(statistic(np.moveaxis(samples[..., drawn], -2, 0)))
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(np.concatenate(found), (tail, 1 - tail), axis=0)
    return low, high
