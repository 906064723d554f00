"""The one verdict on what limits a flow; reports, status files, simulations and advice ask here.

`bottleneck` names the place of work that limits a flow. `driver_bound` says what kind of work the
driver's time goes into: of a place that is known, which of its settings could help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rillflow.scheduler.stats import ResourceStats
from rillflow.scheduler.times import TimeShare

SATURATED = 0.5
"""what works less than this share of the time limits nothing"""
NEVER_RESTS = 0.8
"""a background operator that works this share of the time is the limit, whoever waits for whom"""
FULL = 0.9
"""cores this busy are what limits a flow, whoever works on them"""
CORES = "cores"
"""the name of the processors, where they are one of the places of work"""

Bound = Literal["learner", "sampling", "message"]


@dataclass(frozen=True)
class Bottleneck:
    """What limits a flow."""

    name: str | None
    """the place of work, by its name among the resources; None: nothing is saturated"""
    sentence: str
    """the same for people, with the way out"""


def bottleneck(resources: Sequence[ResourceStats], seconds: float) -> Bottleneck:
    """The place of work that limits a flow, and how full it is.

    >>> busy = [ResourceStats("driver", 1, 0.2), ResourceStats("actors 'worker'", 4, 0.97)]
    >>> bottleneck(busy, seconds=10.0).name
    "actors 'worker'"
    >>> print(bottleneck(busy, seconds=10.0).sentence)
    Bottleneck: actors 'worker', busy 97% of the time; next is driver at 20%. \
To go faster, add actors, or make their work cheaper.
    """
    places = [line for line in resources if line.name != CORES]
    if not places:
        return Bottleneck(None, "Nothing has run yet.")
    if seconds <= 0:
        return Bottleneck(
            None,
            "No time has passed, so nothing limits the flow yet. On the sim engine work takes time "
            "only if its `latency` says how much.",
        )
    full = next((r for r in resources if r.name == CORES and r.utilisation >= FULL), None)
    if full is not None:
        busy = f"the {full.count} cores, busy {full.utilisation:.0%} of the time"
        advice = "add cores or make the work cheaper; more workers will not help"
        return Bottleneck(CORES, f"Bottleneck: {busy}. To go faster, {advice}.")
    busiest, *others = sorted(places, key=lambda line: -line.utilisation)
    if busiest.utilisation < SATURATED:
        return Bottleneck(
            None,
            f"Nothing is saturated: the busiest, {busiest.name}, works "
            f"{busiest.utilisation:.0%} of the time; "
            "latency or a barrier between operators limits the flow.",
        )
    aside = f"; next is {others[0].name} at {others[0].utilisation:.0%}" if others else ""
    return Bottleneck(
        busiest.name,
        f"Bottleneck: {busiest.name}, busy {busiest.utilisation:.0%} of the time{aside}. "
        f"To go faster, {_way_out(busiest)}.",
    )


def _way_out(busiest: ResourceStats) -> str:
    if busiest.name == "driver":
        return "move work of the driver's operators into the actors or to a thread"
    if busiest.count > 1 or "background" not in busiest.name:
        return "add actors, or make their work cheaper"
    return "make its work cheaper or larger per item; more producers will not help"


@dataclass(frozen=True)
class DriverBound:
    """What a run's time goes into, as its driver sees it."""

    bound: Bound
    share: float
    """of the driver's time, or of its own where it never rests"""
    what: str
    """the line that takes most of it"""
    saturated: bool = False
    """it hardly ever rests, beside the driver: whatever that waits for, this is the limit"""


def driver_bound(times: Sequence[TimeShare]) -> DriverBound:
    """A learner of its own that is always at work, or the largest share of the driver's time."""
    for line in times:
        if line.name.startswith("background(") and line.share >= NEVER_RESTS:
            return DriverBound("learner", line.share, line.name, saturated=True)
    shares: dict[Bound, list[tuple[float, str]]] = {"learner": [], "sampling": [], "message": []}
    for line in times:
        if line.where == "driver" and line.part_of is None:
            shares[_bound_of(line)].append((line.share, line.name))
    totals = {bound: sum(share for share, _ in lines) for bound, lines in shares.items()}
    largest = max(totals, key=lambda one: totals[one])
    what = max(shares[largest], default=(0.0, "nothing"))[1]
    return DriverBound(largest, totals[largest], what)


def _bound_of(line: TimeShare) -> Bound:
    if line.kind == "operator" or "background(" in line.name:
        return "learner"
    return "sampling" if line.kind == "waiting" else "message"
