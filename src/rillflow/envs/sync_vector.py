"""Single environments as one vector, for those that have no native form.

`gymnasium.make` puts three wrappers around an environment, and we put one more. After its first
steps they only look on, or count, and yet they are a fifth of the time of a CartPole step. So a
step, and the reset of a copy whose episode is over, goes past those of them that we know, and what
they did is done here. Everything else goes through them: a reset of all, an attribute, the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import Env
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from rillflow.envs.checks import EnvError, EnvFailed
from rillflow.envs.layout import MASK
from rillflow.envs.reset_after_error import Mending, failure_of
from rillflow.envs.skipped_wrappers import SkippedWrappers
from rillflow.envs.spaces import is_box

Array = npt.NDArray[Any]

_NUMBERS = {float, int, np.float32, np.float64}
_FLAGS = {bool, np.bool_}
_NOTHING = object()


class SyncVector(SyncVectorEnv):
    """Gymnasium's `SyncVectorEnv` in its NEXT_STEP mode, at half of its cost around the copies.

    The infos of the copies are not joined: whoever wants them reads them one by one; only masks of
    actions in them are, if they are to be kept. Results are collected in lists and become arrays
    once per step, new ones each time.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Env[Any, Any]]],
        make: Callable[[int], Env[Any, Any]] | None = None,
    ) -> None:
        """With `make`, a copy that raises and cannot be reset is made anew, by its index."""
        self.mending = Mending(self._begin_copy)
        self._make = make
        self.failed: Array | None = None
        """which copies raised in the last step, and are at the beginning of an episode; None: no"""
        self.infos: list[dict[str, Any]] | None = None
        """of the last step, of each copy; None: nobody wants them, a list: keep them from now on"""
        self.keeps_masks = False
        """whether infos have masks of actions that somebody reads"""
        self._made = 0
        self._passed: SkippedWrappers | None = None
        """the copies as they are stepped; None: look again"""
        self._last: Any = None
        """observations of the last step"""
        super().__init__(env_fns)
        space = self.single_observation_space
        self._shape: tuple[int, ...] = space.shape or ()
        self._plain = is_box(space) and bool(space.shape)
        first = self.num_envs * self._shape[0] if self._plain else 0
        self._expected = (first, *self._shape[1:]), space.dtype
        """of the observations when they are joined"""
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

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes; copies that a mask leaves out are where they were."""
        self.mending.seed = how.get("seed") or self.mending.seed
        if self._last is not None:
            self._env_obs = list(iterate(self.observation_space, self._last))
        return super().reset(**how)

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Act in every copy; one whose episode is over begins the next one instead."""
        if self._passed is None or not self._passed.settled:
            self._passed = SkippedWrappers(self.envs, guards=self._unguarded)
        self.failed = None
        masks: list[Any] | None = [] if self.keeps_masks else None
        obs, rewards, terminated, truncated = said = self._results(self._passed, actions, masks)
        self._made += self.num_envs
        joined = self._checked(self._passed, *said) if self._unguarded else self._joined(obs)
        self._last = joined
        del obs, said  # the next step has their memory again
        self._terminations = np.array(terminated, bool)
        self._truncations = np.array(truncated, bool) | self._passed.late()
        self._autoreset_envs = self._terminations | self._truncations
        if self.failed is not None:
            self.envs = self.envs  # told how far their episodes are, and looked at anew
        flags = self._terminations, self._truncations
        info = {} if masks is None else {MASK: _objects(masks)}
        return joined, np.array(rewards, np.float64), *flags, info

    def _results(
        self, passed: SkippedWrappers, actions: Any, masks: list[Any] | None
    ) -> tuple[list[Any], ...]:
        """What the copies say; nothing else of it is kept, so that its memory is used again."""
        obs: list[Any] = []
        rewards: list[Any] = []
        terminated: list[Any] = []
        truncated: list[Any] = []
        calls = passed.calls(self._autoreset_envs)
        said: Any = _NOTHING
        infos: list[dict[str, Any]] | None = None if self.infos is None else []
        try:
            for call, action in zip(calls, iterate(self.action_space, actions), strict=True):
                try:
                    said = call(action)
                except Exception as error:
                    said = self._begin_anew(passed, len(obs), error)
                one, reward, ended, cut, info = said
                if type(said) is not tuple or type(info) is not dict:
                    passed.judge(len(obs), said)
                said = _NOTHING
                obs.append(one)
                rewards.append(reward)
                terminated.append(ended)
                truncated.append(cut)
                if infos is not None:
                    infos.append(info)
                if masks is not None:
                    masks.append(info.get(MASK))
        except EnvError:
            raise
        except Exception:
            if said is not _NOTHING:
                passed.judge(len(obs), said)
            raise
        self.infos = infos
        return obs, rewards, terminated, truncated

    def _begin_anew(self, passed: SkippedWrappers, index: int, error: Exception) -> tuple[Any, ...]:
        """What stands for the step of a copy that raised: the beginning of its next episode."""
        failure = failure_of(error, lambda error: passed.complaint(index, error))
        try:
            first, info = self.mending.reset(index, failure, self._made)
        except EnvFailed as last:
            if last is error:  # what a guard raised; it is not its own cause
                raise
            raise last from error
        passed.begin_anew(index)
        if self.failed is None:
            self.failed = np.zeros(self.num_envs, bool)
        self.failed[index] = True
        return first, 0.0, False, False, info

    def _begin_copy(self, index: int, seed: int | None) -> Any:
        """The first observation and info of a new episode of a copy; with a seed, of a new one."""
        if seed is not None and self._make is not None:
            self.mending.put(self._envs, index, self._make(index))
        return self._envs[index].reset(seed=seed)

    def _checked(
        self,
        passed: SkippedWrappers,
        obs: list[Any],
        rewards: list[Any],
        ended: list[Any],
        cut: list[Any],
    ) -> Array:
        """The observations in one array, if all is as it should be: a Guard asks it of each copy.

        NumPy joins only what is alike in all dimensions but the first, and what it makes of it is
        of another dtype if one of them is of a wider one.
        """
        joined = None
        with suppress(TypeError, ValueError):  # what has no length, and what cannot be joined
            if (
                set(map(type, obs)) == {np.ndarray}
                and set(map(len, obs)) == {self._shape[0]}
                and set(map(type, rewards)) <= _NUMBERS
                and set(map(type, ended)) <= _FLAGS
                and set(map(type, cut)) <= _FLAGS
            ):
                joined = np.concatenate(obs)
        if joined is None or (joined.shape, joined.dtype) != self._expected:
            for i, said in enumerate(zip(obs, rewards, ended, cut, strict=True)):
                passed.judge(i, (*said, {}))
            # not wrong, but more than we know how to ask: from now on the guards are in its way
            self._unguarded = passed.settled = False
            return self._joined(obs)  # type: ignore[no-any-return]
        return joined.reshape(self.num_envs, *self._shape)

    def _joined(self, obs: list[Any]) -> Any:
        space = self.single_observation_space
        if self._plain:
            # the quickest of NumPy's ways to put many small arrays into one
            joined = np.concatenate(obs, dtype=space.dtype, casting="unsafe")
            return joined.reshape(self.num_envs, *self._shape)
        empty: Any = create_empty_array(space, n=self.num_envs)
        return concatenate(space, obs, empty)


def _objects(values: list[Any]) -> Array:
    """One value for each copy, whatever they are."""
    out = np.empty(len(values), object)
    for i, value in enumerate(values):
        out[i] = value
    return out
