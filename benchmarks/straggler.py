"""Does one slow actor among 64 slow the others down?"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator

from _common import Figure, figure, interleaved, load

import rillflow as rf

ACTORS = 64
PAUSE = 0.05
SLOWER = 10
SECONDS = 1.5


class Sleeper:
    """Sleeps, and says which actor it is; how long it sleeps can be changed by a message."""

    def __init__(self, info: rf.ActorInfo) -> None:
        self.index = info.index
        self.pause = PAUSE

    def next(self) -> int:
        time.sleep(self.pause)
        return self.index

    def set_pause(self, pause: float) -> None:
        self.pause = pause


def others_keep_their_rate(repeats: int) -> Iterator[Figure]:
    """One run in which actor 0 is made slow and quick in turn; the items of the others count."""
    actors = rf.Actors.of(Sleeper, ACTORS, name="sleeper")
    with rf.from_actors(actors).gather_async().run("local") as run:
        seen: set[int] = set()
        while len(seen) < ACTORS:
            seen.add(next(run))

        def rate(pause: float) -> float:
            run.send(actors[0], "set_pause", pause)
            _others(run, PAUSE * SLOWER)  # until the change has taken effect
            return _others(run, SECONDS)

        usual, beside = interleaved(
            [lambda: rate(PAUSE), lambda: rate(PAUSE * SLOWER)], max(3, repeats)
        )
    ratio = statistics.median(b / u for u, b in zip(usual, beside, strict=True))
    yield figure(
        "straggler_of_64", ratio, "rate of the others, with / without", ">= 0.95",
        others_items_per_s=round(statistics.median(usual)),
        possible_items_per_s=round((ACTORS - 1) / PAUSE),
        load=load(),
    )  # fmt: skip


def _others(run: rf.Run[int], seconds: float) -> float:
    """Items per second of all actors but the first."""
    began = time.perf_counter()
    count = itertools.count()
    while (passed := time.perf_counter() - began) < seconds:
        if next(run) != 0:
            next(count)
    return next(count) / passed
