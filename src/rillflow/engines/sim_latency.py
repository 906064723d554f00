"""How long things take in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from rillflow.errors import BuildError


class Cpu:
    """Seconds of processor time: they need one of the simulated cores. A number is mere waiting.

    >>> Cpu(0.005)
    Cpu(0.005)
    """

    def __init__(self, seconds: float | Callable[[random.Random], float]) -> None:
        self.seconds = seconds

    def __repr__(self) -> str:
        return f"Cpu({self.seconds!r})"


Seconds = float | Callable[[random.Random], float] | Cpu
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
        elif isinstance(latency, str):
            if not self.measured:
                raise BuildError(
                    f"unknown latency {latency!r}; give 'measured', seconds or a mapping of names."
                )
        elif latency is not None:
            self.table = {"*": latency}
        self.rng = rng

    def of_request(self, actor: str, operators: Sequence[str]) -> tuple[float, float]:
        """What a request takes in an actor: processor time, and waiting."""
        table = self.table
        if not table:
            return 0.0, 0.0
        if actor in table:
            return self._draw(table[actor])
        stated = [table[name] for name in operators if name in table]
        if not stated and "*" in table:
            stated = [table["*"]]
        cpu = wait = 0.0
        for one in stated:
            more_cpu, more_wait = self._draw(one)
            cpu, wait = cpu + more_cpu, wait + more_wait
        return cpu, wait

    def of_driver(self, operator: str) -> float:
        """What an operator takes in the driver, on a core; the default is for actors only."""
        return sum(self._draw(self.table[operator])) if operator in self.table else 0.0

    def _draw(self, stated: Seconds) -> tuple[float, float]:
        seconds = stated.seconds if isinstance(stated, Cpu) else stated
        drawn = max(0.0, seconds(self.rng) if callable(seconds) else float(seconds))
        return (drawn, 0.0) if isinstance(stated, Cpu) else (0.0, drawn)
