"""A life lost ends an episode for learning, while the game goes on (Mnih et al. 2015).

What follows a lost life counts for nothing in the values before it: they learn that losing one is
bad though no reward says so. Episode statistics are those of whole games.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.envs.checks import EnvError, where
from rillflow.envs.episode_returns import Bools
from rillflow.envs.spaces import Array


class Lives:
    """Compares the lives that each environment tells of in its infos, step by step."""

    def __init__(self, num_envs: int, name: str) -> None:
        self._left: Array = np.zeros(num_envs, np.int64)
        self._name = name

    def begin(self, info: dict[str, Any]) -> None:
        """Those of the games that begin."""
        self._left = self._told(info)

    def lost(self, info: dict[str, Any], done: Bools) -> Bools:
        """Where the last step cost a life and the game went on."""
        left = self._told(info)
        lost: Bools = (left < self._left) & ~done
        self._left = left
        return lost

    def _told(self, info: dict[str, Any]) -> Array:
        left = info.get("lives")
        if not isinstance(left, np.ndarray) or left.shape != self._left.shape:
            raise EnvError(
                f"{where(self._name)}: episodes are to end with each life, but infos have no "
                "`lives`, a number for each environment"
            )
        return left.astype(np.int64)

    def get_state(self) -> Array:
        """How many lives are left, everywhere."""
        return self._left.copy()

    def set_state(self, state: Array) -> None:
        """The reverse of `get_state`."""
        self._left = state.copy()
