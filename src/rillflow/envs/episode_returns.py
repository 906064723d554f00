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
        self._parts: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]] = []
        """returns and lengths of episodes that ended, for each step in which some did"""

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
        rows = done.nonzero()[0]
        self._parts.append((self._returns[rows], self._lengths[rows]))
        self._returns[rows] = 0.0
        self._lengths[rows] = 0

    def forget(self, failed: Bools) -> None:
        """Episodes that their environments could not finish: their returns are nobody's."""
        self._returns[failed] = 0.0
        self._lengths[failed] = 0

    def pop(self) -> list[tuple[float, int]]:
        """Return and length of each episode that ended since the last call."""
        ended = self._all_ended()
        self._parts = []
        return ended

    def _all_ended(self) -> list[tuple[float, int]]:
        """Of all steps at once: one by one it would cost as much as counting."""
        if not self._parts:
            return []
        returns, lengths = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
        return list(zip(returns.tolist(), lengths.tolist(), strict=True))

    def get_state(self) -> dict[str, Any]:
        """The running sums and what has not been popped."""
        return {
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "ended": self._all_ended(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """The reverse of `get_state`."""
        self._returns, self._lengths = state["returns"].copy(), state["lengths"].copy()
        ended = state["ended"]
        returns, lengths = np.array([r for r, _ in ended]), np.array([n for _, n in ended], int)
        self._parts = [(returns, lengths)] if ended else []
