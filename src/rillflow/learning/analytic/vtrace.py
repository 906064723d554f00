"""V-trace in NumPy; the twin of `losses.vtrace`."""

from __future__ import annotations

import numpy as np

from rillflow.policies.sampling import Array, Floats


def vtrace(
    log_rhos: Floats,
    rewards: Floats,
    discounts: Floats,
    before: Floats,
    after: Floats,
    ended: Array,
    *,
    clip_rho: float,
    clip_pg_rho: float,
) -> tuple[Floats, Floats]:
    """The value targets and advantages, both [T, B], of `losses.vtrace`.

    `before` and `after` are the values of the observations acted upon and of the true next ones.
    """
    rho = np.exp(log_rhos)
    further = rewards - before
    change = np.minimum(rho, np.float32(clip_rho)) * (further + discounts * after)
    decay = np.where(ended, np.float32(0), discounts * np.minimum(rho, np.float32(1)))
    for t in range(len(change) - 2, -1, -1):
        change[t] += decay[t] * change[t + 1]
    targets: Floats = before + change
    following = after.copy()
    np.copyto(following[:-1], targets[1:], where=~ended[:-1])
    advantages: Floats = np.minimum(rho, np.float32(clip_pg_rho))
    advantages *= further + discounts * following
    return targets, advantages
