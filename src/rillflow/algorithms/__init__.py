"""Algorithms, one file each: settings, networks, update, plan. This is the registry."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING

from rillflow.errors import BuildError

if TYPE_CHECKING:
    from rillflow.learning.algorithm import Algorithm

ALGORITHMS = {
    "a2c": "A2C",
    "a3c": "A3C",
    "apex": "APEX",
    "apex_ddpg": "APEX_DDPG",
    "appo": "APPO",
    "async_dqn": "ASYNC_DQN",
    "bc": "BC",
    "cql": "CQL",
    "ddpg": "DDPG",
    "dqn": "DQN",
    "impala": "IMPALA",
    "iql": "IQL",
    "maml": "MAML",
    "marwil": "MARWIL",
    "pg": "PG",
    "ppo": "PPO",
    "r2d2": "R2D2",
    "rainbow": "RAINBOW",
    "sac": "SAC",
    "simple_q": "SIMPLE_Q",
    "td3": "TD3",
}
"""for each file here the name of its `Algorithm`"""

NAMES = tuple(ALGORITHMS)


_NEAREST = {
    "d4pg": "ddpg", "ddqn": "dqn", "doubledqn": "dqn", "duelingdqn": "dqn",
    "c51": "rainbow", "qrdqn": "dqn", "trpo": "ppo", "ppo2": "ppo", "acktr": "a2c",
    "reinforce": "pg", "vpg": "pg", "qlearning": "dqn",
}  # fmt: skip
"""what comes nearest to algorithms that are not here, by their spelling elsewhere"""


def get_algorithm(name: str) -> Algorithm:
    """An algorithm by its name: its settings, networks, update and plan.

    Papers spell them in many ways: capitals, hyphens and underscores make no difference.

    >>> get_algorithm("Ape-X")
    <algorithm apex>
    """
    known = {_spelling(known): known for known in NAMES}
    key = _spelling(name)
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        meant = _NEAREST.get(key) or (known[near[0]] if near else None)
        hint = f" Did you mean {meant!r}?" if meant else ""
        raise BuildError(f"unknown algorithm {name!r}; there are {', '.join(NAMES)}.{hint}")
    file = known[key]
    # imported one by one: a command line that lists or asks for help needs none of them
    found: Algorithm = getattr(import_module(f"rillflow.algorithms.{file}"), ALGORITHMS[file])
    return found


def _spelling(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
