"""How long things take in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

Seconds = float | Callable[[random.Random], float]
Latency = Literal["measured"] | Seconds | Mapping[str, Seconds] | None


class Observed:
    """Draw from durations that were measured before."""

    def __init__(self, samples: Sequence[float]) -> None:
        if not samples:
            raise ValueError("Observed needs at least one sample")
        self.samples = list(samples)

    def __call__(self, rng: random.Random) -> float:
        return self.samples[rng.randrange(len(self.samples))]


class LatencyModel:
    """Seconds for one piece of work: stated per actor or operator, drawn, or as measured.

    A mapping is looked up by the actor's name, else summed over its operators' names; `*` is the
    default for everything that has no entry.
    """

    def __init__(self, latency: Latency, rng: random.Random) -> None:
        self.measured = latency == "measured"
        self.table: Mapping[str, Seconds] = {}
        if isinstance(latency, Mapping):
            self.table = latency
        elif latency is not None and not isinstance(latency, str):
            self.table = {"*": latency}
        self.rng = rng

    def of_request(self, actor: str, operators: Sequence[str]) -> float:
        """Seconds a request takes in an actor."""
        if not self.table:
            return 0.0
        if actor in self.table:
            return self._draw(self.table[actor])
        stated = [self._draw(self.table[name]) for name in operators if name in self.table]
        if stated:
            return sum(stated)
        return self._draw(self.table["*"]) if "*" in self.table else 0.0

    def of_driver(self, operator: str) -> float:
        """Seconds an operator takes in the driver; the default is for actors only."""
        return self._draw(self.table[operator]) if operator in self.table else 0.0

    def _draw(self, seconds: Seconds) -> float:
        return max(0.0, seconds(self.rng) if callable(seconds) else float(seconds))
