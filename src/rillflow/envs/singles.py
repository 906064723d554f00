"""Single environments as one vector, for those that have no native form.

`gymnasium.make` puts three wrappers around an environment, and we put one more. After its first
steps they only look on, or count, and yet they are a fifth of the time of a CartPole step. So a
step, and the reset of a copy whose episode is over, goes past those of them that we know, and what
they did is done here. Everything else goes through them: a reset of all, an attribute, the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import Env
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from rillflow.envs.layers import Passed
from rillflow.envs.spaces import is_box

Array = npt.NDArray[Any]

_NUMBERS = {float, int, np.float32, np.float64}
_FLAGS = {bool, np.bool_}


class Singles(SyncVectorEnv):
    """Gymnasium's `SyncVectorEnv` in its NEXT_STEP mode, at half of its cost around the copies.

    The infos of the copies are not joined: nobody reads them. Results are collected in lists and
    become arrays once per step, new ones each time.
    """

    def __init__(self, env_fns: Sequence[Callable[[], Env[Any, Any]]]) -> None:
        self._passed: Passed | None = None
        """the copies as they are stepped; None: look again"""
        super().__init__(env_fns)
        space = self.single_observation_space
        self._shape: tuple[int, ...] = space.shape or ()
        self._plain = is_box(space) and bool(space.shape)
        self._unguarded = self._plain
        """past the guards, too: what they ask of an array can be asked of all copies at once"""

    @property
    def envs(self) -> list[Env[Any, Any]]:
        """The copies with all their layers, which know how far their episodes are."""
        if self._passed is not None:
            self._passed.tell()
            self._passed = None  # whoever asks may change them
        return self._envs

    @envs.setter
    def envs(self, envs: list[Env[Any, Any]]) -> None:
        self._envs, self._passed = envs, None

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Act in every copy; one whose episode is over begins the next one instead."""
        if self._passed is None or not self._passed.settled:
            self._passed = Passed(self.envs, guards=self._unguarded)
        obs, rewards, terminated, truncated = self._results(self._passed, actions)
        self._env_obs = obs
        self._terminations = np.array(terminated, bool)
        self._truncations = np.array(truncated, bool) | self._passed.late()
        self._autoreset_envs = self._terminations | self._truncations
        flags = self._terminations, self._truncations
        return self._joined(obs), np.array(rewards, np.float64), *flags, {}

    def _results(self, passed: Passed, actions: Any) -> tuple[list[Any], ...]:
        """What the copies say; nothing else of it is kept, so that its memory is used again."""
        obs: list[Any] = []
        rewards: list[Any] = []
        terminated: list[Any] = []
        truncated: list[Any] = []
        over = self._autoreset_envs.tolist()
        passed.count()
        for step, action, begin in zip(
            passed.steps, iterate(self.action_space, actions), over, strict=True
        ):
            said: Any
            if begin:
                said = passed.begin(len(obs)), 0.0, False, False, {}
            else:
                try:
                    said = step(action)
                except Exception as error:
                    passed.judge(len(obs), error)
                    raise
                if type(said) is not tuple or len(said) != 5 or type(said[4]) is not dict:
                    passed.judge(len(obs), said)
            one, reward, ended, cut, _ = said
            obs.append(one)
            rewards.append(reward)
            terminated.append(ended)
            truncated.append(cut)
        if self._unguarded and not self._usual(obs, rewards, chain(terminated, truncated)):
            for i, said in enumerate(zip(obs, rewards, terminated, truncated, strict=True)):
                passed.judge(i, (*said, {}))
            # not wrong, but more than we know how to ask: from now on the guards are in its way
            self._unguarded = passed.settled = False
        return obs, rewards, terminated, truncated

    def _usual(self, obs: list[Any], rewards: list[Any], flags: Iterable[Any]) -> bool:
        """Whether all is as in nearly every step: a Guard asks the same, of one copy at a time."""
        return (
            set(map(type, obs)) == {np.ndarray}
            and {one.shape for one in obs} == {self._shape}
            and {one.dtype for one in obs} == {self.single_observation_space.dtype}
            and set(map(type, rewards)) <= _NUMBERS
            and set(map(type, flags)) <= _FLAGS
        )

    def _joined(self, obs: Any) -> Any:
        space = self.single_observation_space
        if self._plain:
            # the quickest of NumPy's ways to put many small arrays into one
            joined = np.concatenate(obs, dtype=space.dtype, casting="unsafe")
            return joined.reshape(self.num_envs, *self._shape)
        empty: Any = create_empty_array(space, n=self.num_envs)
        return concatenate(space, obs, empty)
