"""Returns and lengths of episodes, counted for a whole vector step at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]


class Episodes:
    """Running sums per environment, and the episodes that ended since somebody asked."""

    def __init__(self, num_envs: int) -> None:
        self._returns = np.zeros(num_envs, np.float64)
        self._lengths = np.zeros(num_envs, np.int64)
        self._ended: list[tuple[float, int]] = []

    def begin(self) -> None:
        """Forget the episodes that have not ended: new ones begin everywhere."""
        self._returns[:] = 0.0
        self._lengths[:] = 0

    def count(self, rewards: npt.NDArray[Any], valid: Bools | None) -> None:
        """Add one vector step."""
        self._returns += rewards
        self._lengths += 1 if valid is None else valid

    def end(self, done: Bools) -> None:
        """Note the episodes that ended with the step just counted."""
        self._ended += zip(self._returns[done].tolist(), self._lengths[done].tolist(), strict=True)
        self._returns[done] = 0.0
        self._lengths[done] = 0

    def pop(self) -> list[tuple[float, int]]:
        """Return and length of each episode that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def get_state(self) -> dict[str, Any]:
        """The running sums and what has not been popped."""
        return {
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "ended": list(self._ended),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """The reverse of `get_state`."""
        self._returns, self._lengths = state["returns"].copy(), state["lengths"].copy()
        self._ended = list(state["ended"])
