"""Saving and restoring a vector environment, for those that can.

An environment class can offer `get_state() -> object` and `set_state(object)` itself. Gymnasium's
native CartPole does not, but all it knows are a few arrays and a generator.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_CARTPOLE = ("state", "steps", "prev_done", "low", "high")


@dataclass(frozen=True)
class EnvState:
    """How one vector environment is saved and restored."""

    get: Callable[[], Any]
    set: Callable[[Any], None]


def state_of(vector: Any) -> EnvState | None:
    """How to save this environment exactly, or None.

    Asked of the class, not the instance: a wrapper forwards unknown attributes to what it wraps,
    and would seem to save while its own state is lost.
    """
    kind = type(vector)
    if hasattr(kind, "get_state") and hasattr(kind, "set_state"):
        return EnvState(vector.get_state, vector.set_state)
    if kind.__module__.startswith("gymnasium.") and kind.__name__ == "CartPoleVectorEnv":
        return EnvState(lambda: cartpole_state(vector), lambda state: set_cartpole(vector, state))
    return None


def cartpole_state(vector: Any) -> dict[str, Any]:
    """What Gymnasium's native vector CartPole knows."""
    state = {name: copy.copy(getattr(vector, name)) for name in _CARTPOLE}
    return {**state, "rng": copy.deepcopy(vector.np_random.bit_generator.state)}


def set_cartpole(vector: Any, state: dict[str, Any]) -> None:
    """The reverse of `cartpole_state`."""
    for name in _CARTPOLE:
        setattr(vector, name, copy.copy(state[name]))
    vector.np_random.bit_generator.state = copy.deepcopy(state["rng"])
