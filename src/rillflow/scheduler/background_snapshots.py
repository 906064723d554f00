"""Snapshots of a background operator while it works, and how its next incarnation gets one back.

A learner that dies takes with it what it has learned. So it is asked for its state now and then,
between two items, and a restarted one is given the newest before anything else. The snapshot stays
packed, as the engine brought it: nobody reads it here.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rillflow.errors import OperatorError
from rillflow.scheduler.actor import Actor, Answer, Fields, Request
from rillflow.types import Ref

if TYPE_CHECKING:
    from rillflow.scheduler.fleet import Fleet


class Kept(Answer):
    """Takes in a snapshot; one that could not be made leaves the one before."""

    def completed(self, request: Request, fields: Fields, payload: Ref | None) -> None:
        super().completed(request, fields, payload)
        request.actor.kept = payload


class Restored(Answer):
    """Sees to it that a snapshot that cannot be restored is not passed over in silence."""

    def __init__(self, errors: deque[Exception], actor: str) -> None:
        super().__init__(f"set_state of {actor}")
        self._errors = errors

    def failed(self, error: OperatorError) -> None:
        super().failed(error)
        self._errors.append(error)


def keep(fleet: Fleet, actor: Actor) -> None:
    """Ask an actor for a snapshot, if its policy wants one and the last is old enough.

    Only the loss of a process leaves the driver without the state: what lives in the driver, or on
    one of its threads, dies with it.
    """
    every, now = actor.policy.snapshot, fleet.engine.now()
    if every is None or fleet.paused or actor.status != "live" or now - actor.kept_at < every:
        return
    if fleet.engine.actors_in_driver or actor.handle.group.placement != "process":
        return
    actor.kept_at = now
    fleet.call(actor, Kept(f"snapshot of {actor.name}"), "get_state", actor.port.pack(None))
