"""The layers around single environments that a step can pass by, and what they would have counted.

Passed by are the outermost ones, as long as they are exactly of a class that we know: one derived
from it may do anything. Each of them has to have seen enough first: the checker its first steps,
the others a reset. Looking at a layer in every step costs as much as stepping through it, with many
copies: none of it is in the cache. So counts are kept here, and the layers told when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

_HAS_SEEN: dict[type, Callable[[Any], bool]] = {
    OrderEnforcing: lambda layer: layer.has_reset,
    PassiveEnvChecker: lambda layer: (
        layer.checked_reset and layer.checked_step and getattr(layer, "checked_data_reuse", True)
    ),
    TimeLimit: lambda layer: layer._elapsed_steps is not None,
}
"""whether a layer will not change a step any more; that a TimeLimit does is made up for"""
_NEVER = np.iinfo(np.int64).max


class _Copy(NamedTuple):
    inner: Any
    """what is stepped"""
    limit: Any = None
    """the TimeLimit that is passed by"""
    guard: Any = None
    """the Guard that is passed by"""
    settled: bool = True
    """False: a layer has to see more before it can be passed by"""


class Passed:
    """Copies of an environment without the layers that can be passed by."""

    def __init__(self, envs: Sequence[Any], guarded: bool) -> None:
        self.envs = envs
        copies = [_copy(env, guarded) for env in envs]
        self.inner = [copy.inner for copy in copies]
        """what is stepped of each"""
        self.guards = [copy.guard for copy in copies]
        self.settled = all(copy.settled for copy in copies)
        """False: look again after the next step"""
        self._limits = [(i, copy.limit) for i, copy in enumerate(copies) if copy.limit is not None]
        self._most = np.full(len(copies), _NEVER)
        self._elapsed = np.zeros(len(copies), np.int64)
        self._acted = np.array([getattr(guard, "_steps", 0) for guard in self.guards])
        for i, limit in self._limits:
            self._most[i], self._elapsed[i] = limit._max_episode_steps, limit._elapsed_steps

    def count(self, acting: npt.NDArray[np.bool_]) -> None:
        """A step begins, in which these act and the others are reset."""
        self._acted += acting
        self._elapsed += 1
        self._elapsed *= acting

    def late(self) -> npt.NDArray[np.bool_]:
        """Which have come to their time limit."""
        return self._elapsed >= self._most

    def tell(self) -> None:
        """Let the layers know what they would have counted."""
        for i, limit in self._limits:
            limit._elapsed_steps = int(self._elapsed[i])
        for guard, steps in zip(self.guards, self._acted.tolist(), strict=True):
            if guard is not None:
                guard._steps = steps

    def judge(self, index: int, said: Any) -> None:
        """Have a Guard judge what its environment gave or raised: it knows how to say what is wrong.

        Raises:
            EnvError: as the Guard does.
        """
        guard = self.guards[index]
        if guard is None:
            return
        self.tell()
        if isinstance(said, list) and self._most[index] != _NEVER:
            said = tuple(said)  # as a TimeLimit makes one of whatever has five elements
        env, guard.env = guard.env, _Said(guard.env, said)
        guard._steps -= 1  # this step has been counted
        try:
            guard.step(None)
        finally:
            guard.env = env


def _copy(env: Any, guarded: bool) -> _Copy:
    guard, inner = (env, env.env) if guarded else (None, env)
    limit: Any = None
    while type(inner) in _HAS_SEEN and "step" not in vars(inner):
        if not _HAS_SEEN[type(inner)](inner):
            return _Copy(env, settled=False)
        if type(inner) is TimeLimit:
            if limit is not None:
                break
            limit = inner
        inner = inner.env
    return _Copy(inner, limit, guard)


class _Said:
    """In the place of an environment: says what that said."""

    def __init__(self, env: Any, said: Any) -> None:
        self.unwrapped, self._said = env.unwrapped, said

    def step(self, action: Any) -> Any:
        if isinstance(self._said, Exception):
            raise self._said
        return self._said
