"""What one step of a vector environment says, whichever way it begins the next episode.

Gymnasium knows three ways to begin the next episode, and each hides the last observation of the
old one somewhere else. Here all three say the same:

    mode        what Gymnasium does                  what a `Step` says
    NEXT_STEP   the step after the end only resets   its row is not `valid`; `next_obs` is None
    SAME_STEP   `obs` is already the new episode's   `next_obs` holds the final observation
    DISABLED    nothing; the caller resets           reset here, then as SAME_STEP

A loop that keeps true transitions reads, in every mode:

    step = envs.step(actions)
    after = step.obs if step.next_obs is None else step.next_obs   # true next observations
    keep = slice(None) if step.valid is None else step.valid       # rows that are transitions
"""

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
        if self.next_obs is not None:  # unless the next episode began within the step of the end
            starts |= self.terminated | self.truncated
        return starts


def begun_anew(obs: Array, cut: Bools, *, skips: bool) -> Step:
    """The step in which a whole vector failed: no transition anywhere, `obs` begins all episodes.

    Args:
        obs: what to act on next.
        cut: the rows whose episodes went on until then.
        skips: whether its steps leave rows out that only reset, and give no `next_obs`.
    """
    rewards, nowhere = np.zeros(len(obs), np.float32), np.zeros(len(obs), bool)
    after = None if skips else obs
    return Step(obs, rewards, nowhere, nowhere.copy(), nowhere.copy(), after, cut)
