"""Single environments as one vector, for those that have no native form.

`gymnasium.make` puts three wrappers around an environment, and we put one more. After its first
steps they only look on, or count; in a step of CartPole they are a quarter of the time. So a step
goes past those of them that we know, and what they did is done here, for all copies at once where
it can be. Everything else goes through them: a reset, an attribute, the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from rillflow.envs.guard import Guard
from rillflow.envs.spaces import is_box

Array = npt.NDArray[Any]

_LOOKED: dict[type, Callable[[Any], bool]] = {
    OrderEnforcing: lambda layer: layer.has_reset,
    PassiveEnvChecker: lambda layer: (
        layer.checked_reset and layer.checked_step and getattr(layer, "checked_data_reuse", True)
    ),
    TimeLimit: lambda layer: layer._elapsed_steps is not None,
}
"""layers that do not change a step once they have seen enough, and how to know; one only counts"""
_NUMBERS = {float, int, np.float32, np.float64}
_FLAGS = {bool, np.bool_}


class _Copy(NamedTuple):
    """One environment, and what of it a step has to touch."""

    env: Any
    """with all its layers"""
    inner: Any
    """what is stepped: the first layer that may do something to a step"""
    limit: Any = None
    """the TimeLimit that was passed by; its own counter is kept, so that all can see it"""
    guard: Any = None
    """the Guard that was passed by; it is asked where a result is not the usual one"""
    settled: bool = True
    """False: a layer has to see more before it can be passed by"""


class Singles(SyncVectorEnv):
    """Gymnasium's `SyncVectorEnv` in its NEXT_STEP mode, at a third of the cost around the copies.

    The infos of the copies are not joined: nobody reads them. Results are collected in lists and
    become arrays once per step, new ones each time.
    """

    _copies: list[_Copy]

    def __init__(self, env_fns: Any) -> None:
        super().__init__(env_fns)
        space = self.single_observation_space
        self._plain = is_box(space) and bool(space.shape)
        """observations are arrays: what one of them must be can be asked of all at once"""
        self._expected = space.shape, space.dtype
        self._settled = self._takes_ints = False

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Act in every copy; one whose episode is over begins the next one instead."""
        if not self._settled:
            self._settle()
        results, late = self._results(actions)
        columns = _columns(results)
        if self._guarded and not self._usual(results, columns):
            self._ask_guards(results)
        obs, rewards, terminated, truncated, _ = columns
        self._env_obs = list(obs)
        self._terminations = np.array(terminated, bool)
        self._truncations = np.array(truncated, bool)
        self._truncations[late] = True
        self._autoreset_envs = self._terminations | self._truncations
        flags = self._terminations, self._truncations
        return self._joined(obs), np.array(rewards, np.float64), *flags, {}

    def _results(self, actions: Any) -> tuple[list[Any], list[int]]:
        """What each copy says, and which of them came to their time limit."""
        results: list[Any] = []
        late: list[int] = []
        over = self._autoreset_envs.tolist()
        for (env, inner, limit, guard, _), action, begin in zip(
            self._copies, self._each(actions), over, strict=True
        ):
            if begin:
                results.append((env.reset()[0], 0.0, False, False, {}))
                continue
            if guard is not None:
                guard._steps += 1
            try:
                results.append(inner.step(action))
            except Exception as error:
                if guard is not None:
                    self._ask_guards(results)
                    _tell(guard, error)
                raise
            if limit is not None:
                limit._elapsed_steps = elapsed = limit._elapsed_steps + 1
                if elapsed >= limit._max_episode_steps:
                    late.append(len(results) - 1)
        return results, late

    def _each(self, actions: Any) -> Iterable[Any]:
        if self._takes_ints and isinstance(actions, np.ndarray) and actions.dtype.kind == "i":
            return actions.tolist()
        return iterate(self.action_space, actions)

    def _usual(self, results: list[Any], columns: list[tuple[Any, ...]]) -> bool:
        """Whether all is as in nearly every step: a Guard asks the same, of one copy at a time."""
        if len(columns) != 5:
            return False
        obs, rewards, terminated, truncated, infos = columns
        shape, dtype = self._expected
        return (
            set(map(type, results)) == {tuple}
            and set(map(type, obs)) == {np.ndarray}
            and {one.shape for one in obs} == {shape}
            and {one.dtype for one in obs} == {dtype}
            and set(map(type, rewards)) <= _NUMBERS
            and set(map(type, terminated)) <= _FLAGS
            and set(map(type, truncated)) <= _FLAGS
            and set(map(type, infos)) == {dict}
        )

    def _ask_guards(self, results: list[Any]) -> None:
        for copy, result in zip(self._copies, results, strict=False):
            if copy.guard is not None:
                # a TimeLimit makes a tuple of whatever has five elements
                listed = copy.limit is not None and isinstance(result, list)
                _tell(copy.guard, tuple(result) if listed else result)

    def _settle(self) -> None:
        """Look how far in each copy can be stepped; again, until all are as far as they go."""
        self._guarded = self._plain and set(map(type, self.envs)) == {Guard}
        self._copies = [_passed(env, self._guarded) for env in self.envs]
        self._settled = all(copy.settled for copy in self._copies)
        # Gymnasium's own environments do the same with an int as with NumPy's, and sooner
        self._takes_ints = isinstance(self.single_action_space, Discrete) and all(
            type(copy.inner).__module__.startswith("gymnasium.envs.") for copy in self._copies
        )

    def _joined(self, obs: Any) -> Any:
        space = self.single_observation_space
        if self._plain:
            # the quickest of NumPy's ways to put many small arrays into one
            joined = np.concatenate(obs, dtype=space.dtype, casting="unsafe")
            return joined.reshape(self.num_envs, *self._expected[0])
        empty: Any = create_empty_array(space, n=self.num_envs)
        return concatenate(space, obs, empty)


def _columns(results: list[Any]) -> list[tuple[Any, ...]]:
    """What the copies said, by its kind; nothing if it is not the same number of things."""
    try:
        return list(zip(*results, strict=True))
    except (TypeError, ValueError):
        return []


def _passed(env: Any, guarded: bool) -> _Copy:
    """A copy with the outermost of its layers passed by, as far as we know what they do."""
    guard, limit, inner = (env, None, env.env) if guarded else (None, None, env)
    # exactly these classes: one derived from them may do anything, and so may a method put on top
    while type(inner) in _LOOKED and "step" not in vars(inner):
        if not _LOOKED[type(inner)](inner):
            return _Copy(env, env, settled=False)
        if type(inner) is TimeLimit:
            if limit is not None:
                break
            limit = inner
        inner = inner.env
    return _Copy(env, inner, limit, guard)


class _Said:
    """In the place of an environment: says what that said."""

    def __init__(self, env: Any, said: Any) -> None:
        self.unwrapped, self._said = env.unwrapped, said

    def step(self, action: Any) -> Any:
        if isinstance(self._said, Exception):
            raise self._said
        return self._said


def _tell(guard: Any, said: Any) -> None:
    """Have a Guard judge what was said in the step that is counted already."""
    env, guard.env = guard.env, _Said(guard.env, said)
    guard._steps -= 1
    try:
        guard.step(None)
    finally:
        guard.env = env
