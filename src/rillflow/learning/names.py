"""Networks by name, and the seeds of their first weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


class Namespace:
    """Things by name, as attributes."""

    def __init__(self, things: Mapping[str, Any]) -> None:
        self.__dict__.update(things)

    def __getattr__(self, name: str) -> Any:
        return named(self.__dict__, name)


def named(things: Mapping[str, Any], name: str) -> Any:
    """One of these, or an error that tells which there are."""
    try:
        return things[name]
    except KeyError:
        known = ", ".join(things) or "none"
        raise AttributeError(f"no network is called {name!r} here; there are: {known}") from None


def seed_of_policy(name: str, seed: int, acts: str) -> int:
    """Of the first weights of a policy: the one that acts begins as workers do, with the run's
    seed; another one, such as the second of two of q values, with numbers of its own."""
    if name == acts:
        return seed
    return int(np.random.SeedSequence(seed_of(name, seed)).generate_state(1)[0])


def seed_of(name: str, seed: int) -> list[int]:
    """Of the first weights of a network beside the policy: another one for each name."""
    return [seed, *name.encode()]
