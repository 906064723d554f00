"""An environment whose step costs next to nothing, so that a library is measured and not this.

Its name is `_walk:Walk-v0`: Gymnasium imports what stands before the colon, in whatever process it
is asked to make one. No library needs to be told more, as long as its workers look for modules in
the folder of the script that started them.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

Place = npt.NDArray[np.float32]

ID = "Walk-v0"
SHORTEST, LONGEST = 50, 200
MOVES = tuple(np.eye(2, 4, dtype=np.float32) * 0.01)
"""of each action"""


class Walk(gymnasium.Env[Place, Any]):
    """Goes along one of two axes at each step, and is over after a number of them drawn before."""

    observation_space = gymnasium.spaces.Box(0.0, 4.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Place, dict[str, Any]]:
        """At a random place."""
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(SHORTEST, LONGEST + 1))
        self._place = self.np_random.random(4, np.float32)
        return self._place, {}

    def step(self, action: Any) -> tuple[Place, float, bool, bool, dict[str, Any]]:
        """One step, which is worth 1."""
        self._left -= 1
        self._place = self._place + MOVES[action]
        return self._place, 1.0, self._left <= 0, False, {}


def register() -> None:
    """Let Gymnasium know; there is no time limit, for there is no walk without an end."""
    if ID not in gymnasium.registry:
        gymnasium.register(ID, entry_point=Walk)


register()
