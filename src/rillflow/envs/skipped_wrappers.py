"""The layers around single environments that a step can pass by, and what they would have counted.

Passed by are the outermost ones, as long as they are exactly of a class that we know: one derived
from it may do anything. Each of them has to have seen enough first: the checker its first steps,
the others a reset. Looking at a layer in every step costs as much as stepping through it, with many
copies: none of it is in the cache. So counts are kept here, and the layers told when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from rillflow.envs.checks import EnvFailed, raised
from rillflow.envs.guard import Guard

_HAS_SEEN: dict[type, Callable[[Any], bool]] = {
    OrderEnforcing: lambda layer: layer.has_reset,
    PassiveEnvChecker: lambda layer: (
        layer.checked_reset and layer.checked_step and getattr(layer, "checked_data_reuse", True)
    ),
    TimeLimit: lambda layer: layer._elapsed_steps is not None,
}
"""whether a layer will not change a step any more; that a TimeLimit does is made up for"""
_OWN = frozenset(("step", "reset"))
"""methods that somebody has put on a layer itself"""
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


class SkippedWrappers:
    """Copies of an environment without the layers that can be passed by."""

    def __init__(self, envs: Sequence[Any], *, guards: bool) -> None:
        """With `guards` also past those: then `judge` has to be asked where they would be."""
        self._envs = envs
        copies = [_copy(env, guards) for env in envs]
        self.inner = [copy.inner for copy in copies]
        """what is stepped of each"""
        self._steps = [copy.inner.step for copy in copies]
        self._guards = [copy.guard for copy in copies]
        self.settled = all(copy.settled for copy in copies)
        """False: look again after the next step"""
        self._limits = {i: copy.limit for i, copy in enumerate(copies) if copy.limit is not None}
        self._step = 0
        """of the vector, since here"""
        self._begun = [0] * len(copies)
        """the step in which the episode of each began; below 0 if before"""
        self._due = np.full(len(copies), _NEVER)
        """the step in which each comes to its time limit"""
        self._acted = [0 if copy.guard is None else copy.guard._steps for copy in copies]
        """steps of each, were it never reset again"""
        for i, limit in self._limits.items():
            self._begin(i, -limit._elapsed_steps)

    def calls(self, over: npt.NDArray[np.bool_]) -> list[Callable[[Any], Any]]:
        """A step begins: what to call of each with its action, those whose episode is over told."""
        self._step += 1
        if b"\1" not in over.tobytes():
            return self._steps
        calls = self._steps.copy()
        for index in np.flatnonzero(over).tolist():
            calls[index] = partial(self._first, index)
        return calls

    def _first(self, index: int, _: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The step of one that begins the next episode; its action is of no use."""
        self._acted[index] -= 1
        self._begin(index, self._step)
        guard = self._guards[index]
        if guard is None:
            obs, info = self._envs[index].reset()
        else:
            guard._steps = self._acted[index] + self._step
            obs, info = guard.reset_inside(self.inner[index])
        return obs, 0.0, False, False, info

    def _begin(self, index: int, step: int) -> None:
        self._begun[index] = step
        if index in self._limits:
            self._due[index] = step + self._limits[index]._max_episode_steps

    def late(self) -> npt.NDArray[np.bool_]:
        """Which have come to their time limit."""
        return self._due <= self._step

    def tell(self) -> None:
        """Let the layers know what they would have counted."""
        for i, limit in self._limits.items():
            limit._elapsed_steps = self._step - self._begun[i]
        for guard, acted in zip(self._guards, self._acted, strict=True):
            if guard is not None:
                guard._steps = acted + self._step

    def begin_anew(self, index: int) -> None:
        """The episode of one copy begins in this step, whatever was before."""
        self._begin(index, self._step)

    def complaint(self, index: int, error: Exception) -> EnvFailed:
        """What is said of what one copy raised."""
        guard = self._guards[index]
        if guard is None:
            return raised(error, "step", type(self._envs[index].unwrapped).__name__, index)
        guard._steps = self._acted[index] + self._step
        complaint: EnvFailed = guard.complaint(error)
        return complaint

    def judge(self, index: int, said: Any) -> None:
        """Have a Guard, who knows how to complain, judge what its environment gave.

        Raises:
            EnvError: as the Guard does.
        """
        guard = self._guards[index]
        if guard is None:
            return
        if isinstance(said, list) and index in self._limits:
            said = tuple(said)  # as a TimeLimit makes one of whatever has five elements
        guard._steps = self._acted[index] + self._step
        guard.check(said)


def _copy(env: Any, guards: bool) -> _Copy:
    guard = env if guards and type(env) is Guard else None
    inner: Any = env if guard is None else guard.env
    limit: Any = None
    while type(inner) in _HAS_SEEN and _OWN.isdisjoint(vars(inner)):
        if not _HAS_SEEN[type(inner)](inner):
            return _Copy(env, settled=False)
        if type(inner) is TimeLimit:
            if limit is not None:
                break
            limit = inner
        inner = inner.env
    return _Copy(inner, limit, guard)
