"""Where the driver's time goes: operators, waiting for whom, messages, the user's loop, the rest.

A look for something to do that finds nothing is part of the waiting that follows. The rest is what
scheduling needs. It is not measured but what is left over, so that nothing is counted twice and
nothing is hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["operator", "waiting", "messages", "loop", "rest"]


class DriverTimes:
    """Seconds since a run's first answer, by the engine's clock."""

    def __init__(self) -> None:
        self.begin = 0.0
        self.waited = 0.0
        self.waits_since: float | None = None
        """since when the driver has been waiting; None: it is not"""
        self.waiting: dict[str, list[float]] = {}
        """seconds and times waited, by the path of what the driver waited for"""
        self.loop = 0.0
        """seconds in the body of the user's loop"""
        self.messages = 0.0
        """seconds in which requests and messages were made, sent and received"""
        self.given: float | None = None
        """when the last item was given; None: the driver is at work"""
        self.rounds = 0

    def start(self, now: float) -> None:
        """Everything is counted from now on."""
        self.begin = now
        self.waited = self.loop = self.messages = 0.0
        self.waiting.clear()
        self.rounds = 0

    def waited_for(self, path: str, seconds: float) -> None:
        """The driver had nothing to do until the operator at `path` answered."""
        self.waited += seconds
        entry = self.waiting.get(path)
        if entry is None:
            entry = self.waiting[path] = [0.0, 0]
        entry[0] += seconds
        entry[1] += 1

    def waits_for(self, now: float) -> float:
        """Seconds of the wait that has not ended."""
        since = self.waits_since  # read once: the run's own thread may end the wait meanwhile
        return 0.0 if since is None else max(0.0, now - max(since, self.begin))

    def in_loop(self, now: float) -> float:
        """Seconds in the user's loop, up to now."""
        return self.loop + (0.0 if self.given is None else now - max(self.given, self.begin))


@dataclass(frozen=True)
class TimeShare:
    """One line of where time went, in the driver or in a group of actors."""

    name: str
    where: str
    """`driver`, or the name of a group of actors"""
    kind: Kind
    calls: int
    seconds: float
    share: float
    """share of the wall time; in a group, of the time of all its actors together"""
    part_of: str | None = None
    """the operator that this line is a part of, as an actor has told, and that counts it already"""
