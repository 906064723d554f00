"""Whether what a network ends in fits the actions of a space."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.errors import BuildError

if TYPE_CHECKING:
    from rillflow.policies.spec import PolicySpec


def check_head(spec: PolicySpec) -> None:
    """The head can give actions of this kind."""
    kind = spec.actions.kind
    if spec.head == "q" and kind == "continuous":
        raise BuildError(
            "head='q' has one output per action and cannot enumerate the continuous actions of "
            f"{spec.action_space}; use an actor-critic method (PPO, A2C, A3C, IMPALA), "
            "head='actor_critic', or make the actions discrete"
        )
    if spec.head == "q" and kind == "multidiscrete":
        raise BuildError(
            f"head='q' needs a Discrete action space, found {spec.action_space}; use an "
            "actor-critic method (PPO, A2C, A3C, IMPALA), head='actor_critic', or number all "
            f"combinations: Discrete({prod(spec.actions.sizes)})"
        )
    if spec.head == "categorical" and kind != "discrete":
        way = "use an actor-critic method (PPO, A2C, A3C, IMPALA)"
        if kind == "multidiscrete":
            way += f", or number all combinations: Discrete({prod(spec.actions.sizes)})"
        raise BuildError(
            f"head='categorical' needs a Discrete action space, found {spec.action_space}: {way}"
        )
    if spec.bounded:
        _check_bounds(spec)
    if spec.dueling and spec.head != "q":
        raise BuildError(f"dueling=True splits q values and needs head='q', found {spec.head!r}")


def _check_bounds(spec: PolicySpec) -> None:
    space: Any = spec.action_space
    if spec.actions.kind != "continuous":
        raise BuildError(
            f"head={spec.head!r} gives continuous actions, found {space}: use an algorithm for "
            "discrete actions (SAC, DQN, PPO, ...)"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise BuildError(
            f"head={spec.head!r} squeezes actions into their bounds, and {space} has none on some "
            "side: give it bounds (gymnasium.wrappers.RescaleAction), or use PPO"
        )
    if not (space.low < space.high).all():
        raise BuildError(
            f"head={spec.head!r} stretches actions between their bounds, and in {space} some are "
            "the same below and above: leave those parts of an action out, or use PPO"
        )
