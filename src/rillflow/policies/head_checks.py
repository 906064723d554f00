"""Whether what a network ends in fits the actions of a space."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.errors import BuildError

if TYPE_CHECKING:
    from rillflow.policies.spec import PolicySpec

_FAR = 1e30
"""numbers up to which single precision can be reckoned with"""


def check_head(spec: PolicySpec) -> None:
    """The head can give actions of this kind."""
    kind = spec.actions.kind
    if spec.head == "q" and spec.actions.numbers:
        more = "SAC, TD3, " if kind == "continuous" else ""
        raise BuildError(
            "head='q' has one output per action and cannot enumerate the continuous actions of "
            f"{spec.action_space}; use an actor-critic method (PPO, {more}A2C, A3C, IMPALA), "
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
    if spec.num_atoms != 1 or spec.v_min is not None or spec.v_max is not None:
        _check_atoms(spec)
    if spec.noisy != 0:
        _check_noise(spec)


def support_problems(num_atoms: object, v_min: Any, v_max: Any) -> list[str]:
    """What is wrong with the returns of a distribution, from the least to the largest."""
    if not isinstance(num_atoms, int) or isinstance(num_atoms, bool) or num_atoms < 1:
        return [f"num_atoms must be a whole number, at least 1, got {num_atoms!r}"]
    ends = {"v_min": v_min, "v_max": v_max}
    if num_atoms == 1:
        return [
            f"{name}={end!r} is an end of distributions, and with num_atoms=1 there are none: give "
            "num_atoms=51, or leave it out"
            for name, end in ends.items()
            if end is not None
        ]
    missing = [name for name, end in ends.items() if end is None]
    if missing:
        return [
            f"num_atoms={num_atoms} needs {' and '.join(missing)}: the least and the largest "
            "discounted return that there can be"
        ]
    wrong = [
        f"{name} must be a finite number, got {end!r}"
        for name, end in ends.items()
        if isinstance(end, bool) or not isinstance(end, int | float) or not abs(end) < _FAR
    ]
    if not wrong and not v_min < v_max:
        wrong = [f"v_min must be below v_max, got v_min={v_min!r} and v_max={v_max!r}"]
    return wrong


def _check_atoms(spec: PolicySpec) -> None:
    wrong = support_problems(spec.num_atoms, spec.v_min, spec.v_max)
    if wrong:
        raise BuildError("; ".join(wrong))
    if spec.num_atoms > 1:
        _check_own_q(spec, f"num_atoms={spec.num_atoms}", "gives q values distributions")


def _check_noise(spec: PolicySpec) -> None:
    noisy: Any = spec.noisy
    if isinstance(noisy, bool) or not isinstance(noisy, int | float) or not 0 < noisy < _FAR:
        raise BuildError(f"noisy must be a finite number above 0, or 0 for none, got {noisy!r}")
    _check_own_q(spec, f"noisy={noisy:g}", "gives noise to networks of q values")


def _check_own_q(spec: PolicySpec, setting: str, does: str) -> None:
    """What changes the layers of q values is for built-in networks without memory."""
    if spec.head != "q":
        raise BuildError(f"{setting} {does} and needs head='q', found {spec.head!r}")
    if not isinstance(spec.model, str):
        raise BuildError(
            f"{setting} {does} that are built in, and this one is your own: use model='mlp' or "
            "'cnn', or leave it out"
        )
    if spec.memory is not None:
        raise BuildError(
            f"{setting} {does} without a memory, found memory={spec.memory!r}: leave one of the "
            "two out"
        )


def _check_bounds(spec: PolicySpec) -> None:
    space: Any = spec.action_space
    if spec.actions.kind != "continuous":
        way = "an algorithm for discrete actions (SAC, DQN, PPO, ...)"
        if spec.actions.numbers:
            way = "PPO, A2C, A3C, IMPALA or APPO, whose policies mix choices and numbers"
        raise BuildError(f"head={spec.head!r} gives continuous actions, found {space}: use {way}")
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
