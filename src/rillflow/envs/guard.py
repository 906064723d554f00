"""The contract of one Gymnasium environment, checked where its copies can still be told apart.

A vector environment made of single ones unpacks, casts and stacks what they return: by then a
missing value is a `ValueError` about unpacking and a float64 has become a float32. So each copy
is wrapped, and a broken promise is reported with its own index and step.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rillflow.envs.checks import (
    EnvError,
    EnvFailed,
    flag_mismatch,
    method_of,
    mismatch,
    number_mismatch,
    raised,
    result_mismatch,
    where,
)
from rillflow.envs.spaces import is_box

_RESET = ("observation", "info")
_STEP = ("observation", "reward", "terminated", "truncated", "info")
_NUMBERS = frozenset((float, int, np.float32, np.float64))
_FLAGS = frozenset((bool, np.bool_))


class Guard(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One environment, named: what it raises and returns is checked at every call."""

    def __init__(self, env: gymnasium.Env[Any, Any], name: str, index: int) -> None:
        super().__init__(env)
        self._name, self._index, self._steps = name, index, 0
        # asked for once: through a stack of wrappers it costs more than all the checks
        self._space = env.observation_space
        shape_and_dtype = self._space.shape, self._space.dtype
        self._expected = shape_and_dtype if is_box(self._space) else None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """As the environment's own, checked."""
        return self.reset_inside(self.env, seed=seed, options=options)

    def reset_inside(self, env: Any, **how: Any) -> tuple[Any, dict[str, Any]]:
        """Reset what is inside, or what is inside of that, and check what it says."""
        try:
            result: tuple[Any, dict[str, Any]] = env.reset(**how)
        except Exception as error:
            raise raised(error, "reset", self._name, self._index) from error
        problem = result_mismatch(result, _RESET, "reset")
        self._refuse(problem or self._wrong(result[0]), "reset")
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment's own, checked."""
        self._steps += 1
        try:
            result = self.env.step(action)
        except Exception as error:
            raise self.complaint(error) from error
        self.check(result)
        return result

    def complaint(self, error: Exception) -> EnvFailed:
        """What is said of an error that the environment raised in its last step."""
        return raised(error, "step", self._name, self._index, self._steps)

    def check(self, result: Any) -> None:
        """Whether what the environment returned from its last step is what it promised.

        Raises:
            EnvError: it is not.
        """
        if type(result) is tuple and len(result) == 5 and self._usual(*result):
            return
        self._refuse(
            result_mismatch(result, _STEP, "step")
            or self._wrong(result[0])
            or number_mismatch(result[1], "reward")
            or flag_mismatch(result[2], "terminated")
            or flag_mismatch(result[3], "truncated"),
            "step",
        )

    def _usual(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> bool:
        """Whether this is what nearly every step returns, so that nothing else need be asked."""
        return (
            type(obs) is np.ndarray
            and (obs.shape, obs.dtype) == self._expected
            and type(reward) in _NUMBERS
            and type(terminated) in _FLAGS
            and type(truncated) in _FLAGS
            and type(info) is dict
        )

    def _wrong(self, obs: Any) -> str | None:
        if type(obs) is np.ndarray and (obs.shape, obs.dtype) == self._expected:
            return None
        return mismatch(self._space, obs)

    def _refuse(self, problem: str | None, method: str) -> None:
        if problem:
            place = method_of(self.env, method)
            raise EnvError(f"{where(self._name, self._index, self._steps)}: {problem}{place}")
