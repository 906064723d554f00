"""Twenty-five ways in which an environment breaks its contract, for `faults.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rillflow.envs.make import make_envs

Result = Callable[[Any], Any]


class Malformed(gymnasium.Env[Any, Any]):
    """CartPole's shape, with what `reset` and `step` return changed."""

    def __init__(self, reset: Result, step: Result, space: Any = None) -> None:
        self.observation_space = space or spaces.Box(-1, 1, (4,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._reset, self._step = reset, step

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._reset((np.zeros(4, np.float32), {}))

    def step(self, action: Any) -> Any:
        return self._step((np.zeros(4, np.float32), 1.0, False, False, {}))


def _same(result: Any) -> Any:
    return result


def _at(index: int, value: Any) -> Result:
    def change(result: Any) -> Any:
        return (*result[:index], value, *result[index + 1 :])

    return change


def _step(change: Result) -> Callable[[], Any]:
    return lambda: Malformed(_same, change)


def _reset(change: Result) -> Callable[[], Any]:
    return lambda: Malformed(change, _same)


KINDS: dict[str, Callable[[], Any]] = {
    "reset gives an observation alone": _reset(lambda r: r[0]),
    "reset gives None": _reset(lambda r: None),
    "reset gives three values": _reset(lambda r: (*r, 0)),
    "reset gives info as a list": _reset(_at(1, [])),
    "first observation of another shape": _reset(_at(0, np.zeros(3, np.float32))),
    "first observation of float64": _reset(_at(0, np.zeros(4))),
    "first observation is a list": _reset(_at(0, [0.0] * 4)),
    "first observation is None": _reset(_at(0, None)),
    "step gives four values": _step(lambda r: (*r[:3], r[4])),
    "step gives six values": _step(lambda r: (*r, 0)),
    "step gives None": _step(lambda r: None),
    "step gives a list": _step(list),
    "observation of another shape": _step(_at(0, np.zeros((4, 1), np.float32))),
    "observation of float64": _step(_at(0, np.zeros(4))),
    "observation of integers": _step(_at(0, np.zeros(4, np.int64))),
    "observation is a list": _step(_at(0, [0.0] * 4)),
    "observation is None": _step(_at(0, None)),
    "observation is a dict": _step(_at(0, {"x": 0})),
    "reward is None": _step(_at(1, None)),
    "reward is a string": _step(_at(1, "1")),
    "reward is an array": _step(_at(1, np.zeros(2))),
    "terminated is a string": _step(_at(2, "no")),
    "terminated is a number": _step(_at(2, 0.5)),
    "truncated is None": _step(_at(3, None)),
    "info is None": _step(_at(4, None)),
}


def message_of(make: Callable[[], Any]) -> str:
    """What is said of such an environment; empty if it was taken."""
    try:
        envs = make_envs(make, 2)
        envs.reset()
        envs.step(np.zeros(2, int))
    except Exception as error:
        return str(error).splitlines()[0]
    return ""
