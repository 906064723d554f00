"""How much a worker explores: by its steps, or by which of the workers it is.

The epsilon of a DQN worker falls with its steps, that of an Ape-X worker is its own from the first
step to the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Place:
    """Which worker it is, of how many."""

    worker: int = 0
    workers: int = 1


Scale: TypeAlias = float | Callable[[Place], float]
"""how large noise is, where the bounds of an action are -1 and 1: everywhere, or in each worker"""


def falling(initial: float, final: float, timesteps: int) -> Callable[[Place, int], float]:
    """A line from the first rate to the last, by the steps of all workers.

    >>> rate = falling(1.0, 0.1, 1000)
    >>> rate(Place(), 0), rate(Place(), 500), rate(Place(workers=2), 250)
    (1.0, 0.55, 0.55)
    """

    def rate(place: Place, steps: int) -> float:
        done = min(1.0, steps * place.workers / max(1, timesteps))
        return initial + done * (final - initial)

    return rate


def graded(first: float) -> Callable[[Place], float]:
    """For each worker a rate of its own, from the first's down to its eighth power (Horgan et al.
    2018, arXiv:1803.00933); one worker alone has the first's.

    >>> [round(graded(0.4)(Place(worker, 3)), 4) for worker in range(3)]
    [0.4, 0.0162, 0.0007]
    """
    return lambda place: first ** (1 + 7 * place.worker / max(1, place.workers - 1))


def scale_in(scale: Scale, place: Place) -> float:
    """How large noise is in this worker."""
    return scale(place) if callable(scale) else scale
