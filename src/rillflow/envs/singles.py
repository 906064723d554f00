"""Single environments as one vector, for those that have no native form."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from rillflow.envs.spaces import is_box

Array = npt.NDArray[Any]


class Singles(SyncVectorEnv):
    """Gymnasium's `SyncVectorEnv` in its NEXT_STEP mode, at less than half the cost per copy.

    The infos of the copies are not joined: nobody reads them. Results are collected in lists and
    become arrays once per step, new ones each time.
    """

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Act in every copy; one whose episode is over begins the next one instead."""
        resetting = self._autoreset_envs.tolist()
        obs: list[Any] = []
        rewards, terminated, truncated = [], [], []
        for env, action, over in zip(
            self.envs, iterate(self.action_space, actions), resetting, strict=True
        ):
            if over:
                result: tuple[Any, ...] = (env.reset()[0], 0.0, False, False)
            else:
                result = env.step(action)
            obs.append(result[0])
            rewards.append(result[1])
            terminated.append(result[2])
            truncated.append(result[3])
        self._env_obs = obs
        self._terminations, self._truncations = (
            np.array(terminated, bool),
            np.array(truncated, bool),
        )
        self._autoreset_envs = self._terminations | self._truncations
        flags = self._terminations, self._truncations
        return self._joined(obs), np.array(rewards, np.float64), *flags, {}

    def _joined(self, obs: list[Any]) -> Any:
        space = self.single_observation_space
        if is_box(space) and space.shape:
            # the quickest of NumPy's ways to put many small arrays into one
            joined = np.concatenate(obs, dtype=space.dtype, casting="unsafe")
            return joined.reshape(self.num_envs, *space.shape)
        empty: Any = create_empty_array(space, n=self.num_envs)
        return concatenate(space, obs, empty)
