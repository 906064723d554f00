"""The end of a finite flow: whatever was sent to actors reaches them before they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rillflow.scheduler.actor import Actor, Answer

if TYPE_CHECKING:
    from rillflow.scheduler.driver import Driver
    from rillflow.scheduler.scheduler import Scheduler


def deliver_messages(driver: Driver, scheduler: Scheduler) -> None:
    """Wait until actors have handled the messages that somebody may count on.

    An actor that writes what it is told must not miss the last item. New weights for an actor that
    is still busy with a request are another thing: nobody will ask it again.
    """
    fleet = scheduler.fleet
    fleet.paused = True  # what still comes in is not followed by new requests
    answers = []
    for actor in fleet.actors.values():
        if actor.status == "live" and _counts_on(actor):
            answer = Answer(f"the last messages to {actor.name}")
            fleet.call(actor, answer, "reached", fleet.engine.put(None))
            answers.append(answer)
    driver.wait_for(answers)


def _counts_on(actor: Actor) -> bool:
    mail = actor.mail
    if actor.requests:
        return mail.last_unversioned > mail.handled
    return bool(mail.unsent) or mail.posted > mail.handled
