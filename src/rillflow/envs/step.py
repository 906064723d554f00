"""What one step of a vector of environments did, the same for each way to begin episodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rillflow.envs.episode_returns import Bools
from rillflow.envs.spaces import Array


class Step(NamedTuple):
    """What one vector step did; every array has one row per environment and is the caller's."""

    obs: Array
    """what to act on next"""
    rewards: npt.NDArray[np.float32]
    terminated: Bools
    """the episode ended and nothing follows: its value is 0"""
    truncated: Bools
    """the episode was cut: its value is that of its true next observation"""
    valid: Bools | None
    """False where this step only began an episode and its action was ignored; None: all valid"""
    next_obs: Array | None
    """the true next observation of each step; None: it is `obs` in every valid row"""
    cut: Bools | None = None
    """where the environment failed in this step, which is no transition: the step before was the
    last of its episode, cut there; None: nowhere"""

    @property
    def starts(self) -> Bools:
        """Where `obs` is the first of an episode."""
        if self.valid is None:
            return self.terminated | self.truncated
        starts: Bools = ~self.valid  # after the end comes the final observation, then a reset
        return starts
