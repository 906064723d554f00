"""The global random generators of Python, NumPy and torch, seeded for each simulated run."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any


class Generators:
    """The global random generators, which user code may draw from, as one run sees them.

    Only one run has them at a time. When the driver turns to another run, what the generators have
    become is kept for the one before, so that two runs side by side do not disturb each other.
    """

    current: Generators | None = None
    before: list[Callable[[], None]] = []  # noqa: RUF012 - shared on purpose: there is one process
    """functions that put back what there was before any simulation"""
    at_work: list[Generators] = []  # noqa: RUF012 - as above
    """runs that the driver works for, each inside an actor of the one before"""

    def __init__(self) -> None:
        self._mine: list[Callable[[], None]] = []
        """functions that put the generators back as this run has left them"""
        self.open = False

    def seed(self, seed: int) -> None:
        """Begin anew from a seed."""
        self.open = True
        self.take_over()
        random.seed(seed)
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed % 2**32)
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            torch.manual_seed(seed)

    def enter(self) -> None:
        """The driver works for this run, perhaps inside an actor of another."""
        Generators.at_work.append(self)
        self.take_over()

    def leave(self) -> None:
        """Back to the run around this one, if there is one; else nobody draws any numbers now."""
        Generators.at_work.pop()
        if Generators.at_work:
            Generators.at_work[-1].take_over()

    def take_over(self) -> None:
        """From now on this run draws from the generators."""
        if Generators.current is self or not self.open:
            return
        if Generators.current is None:
            Generators.before = _keep_generators()
        else:
            Generators.current._mine = _keep_generators()
        Generators.current = self
        for put_back in self._mine:
            put_back()

    def give_back(self) -> None:
        """The run is over: if it has the generators, they are put back as they were before."""
        self.open = False
        if Generators.current is self:
            Generators.current = None
            for put_back in Generators.before:
                put_back()


def _keep_generators() -> list[Callable[[], None]]:
    """Functions that put the generators back into the state they are in now."""
    state = random.getstate()
    keep: list[Callable[[], None]] = [lambda: random.setstate(state)]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy_state = numpy.random.get_state()
        keep.append(lambda: numpy.random.set_state(numpy_state))
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch_state = torch.get_rng_state()
        keep.append(lambda: torch.set_rng_state(torch_state))
    return keep
