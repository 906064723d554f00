"""How a run comes to rest for a snapshot, and what its actors tell then, whoever hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rillflow.errors import WorkerLost
from rillflow.scheduler.actor import Actor, Answer
from rillflow.scheduler.driver import TooLate

if TYPE_CHECKING:
    from rillflow.scheduler.driver import Driver
    from rillflow.scheduler.scheduler import Scheduler


def come_to_rest(driver: Driver, timeout: float | None, partial: bool) -> set[str]:
    """Let every request come in; returns the names of actors that were replaced for it."""
    try:
        driver.quiesce(timeout)
        return set()
    except TooLate:
        hung = driver.silent()
        if not partial or not _replace(driver, hung, f"it did not come to rest within {timeout} s"):
            raise
    driver.quiesce(timeout)
    return {actor.name for actor in hung}


def hosts_of(
    driver: Driver,
    scheduler: Scheduler,
    timeout: float | None,
    partial: bool,
    replaced: set[str],
) -> dict[str, Any]:
    """By name: what the host of each actor tells, or its last snapshot told."""
    fleet = scheduler.fleet
    present = [a for a in fleet.actors.values() if a.status == "live"]
    asked = [a for a in present if a.name not in replaced]
    answers = [Answer(f"get_state of {actor.name}") for actor in asked]
    for actor, answer in zip(asked, answers, strict=True):
        fleet.call(actor, answer, "get_state", actor.port.pack(None))
    try:
        driver.wait_for(answers, timeout)
    except TooLate:
        late = [a for a, answer in zip(asked, answers, strict=True) if not answer.done]
        why = f"it did not tell its state within {timeout} s"
        if not partial or not _replace(driver, late, why):
            raise
    hosts = {}
    for actor, answer in zip(asked, answers, strict=True):
        if answer.error is not None:
            raise answer.error
        if answer.payload is not None:
            hosts[actor.name] = answer.payload.get()
        elif not partial:
            raise WorkerLost(f"actor {actor.name!r} was lost while it was asked for its state.")
    for actor in present:
        if actor.name not in hosts and actor.kept is not None:
            hosts[actor.name] = actor.kept.get()
    for one in scheduler.backgrounds:
        if one.actor in present and one.actor.name not in hosts:
            raise TooLate(f"{one.actor.name} did not tell its state, and has no snapshot of it.")
    return hosts


def _replace(driver: Driver, actors: list[Actor], why: str) -> bool:
    """Treat actors as lost; False: a policy has them raise, and nothing was done."""
    if any(actor.policy.on_lost != "restart" for actor in actors):
        return False
    supervision = driver.scheduler.fleet.supervision
    for actor in actors:
        if actor.status == "live":
            actor.counters["hung"] += 1
            supervision.lost(actor, f"hung: {why}, and is not part of this checkpoint", None)
    return True
