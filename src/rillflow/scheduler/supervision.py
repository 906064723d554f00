"""What a failure means: raise it, drop the item, ask again, restart the actor, go on without it.

Three things are told apart: user code raised and the actor lives (`failed`), a message's handler
raised (`message_failed`), and the actor is gone or hangs (`lost`). A call that fails concerns only
whoever made it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from rillflow.errors import ActorStartError, OperatorError, UserFailure, WorkerLost
from rillflow.scheduler.actor import Actor, Answer, Request
from rillflow.types import Header

if TYPE_CHECKING:
    from rillflow.scheduler.fleet import Fleet


class Supervision:
    """Applies the policy of each actor."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    # -- user code raised ----------------------------------------------------------------------

    def failed(self, actor: Actor, request: Request, header: Header, failure: UserFailure) -> None:
        """A request or a call raised; the actor lives."""
        fleet, target = self.fleet, request.target
        where = f"{target.operator} > {failure.operator}" if failure.operator else target.operator
        error = OperatorError.build(failure, where, actor.name)
        if fleet.log is not None:
            fleet.log("failed", actor.name, actor.incarnation, failure.type_name)
        if isinstance(target, Answer):
            target.failed(error)
            fleet.leave_if_idle(actor)
            return
        here = actor.inline or fleet.engine.actors_in_driver
        if here and failure.type_name == "KeyboardInterrupt":
            target.dropped(request, header, "interrupted")  # the user has the interrupt already
            return
        actor.counters["errors"] += 1
        target.failures += 1
        policy = actor.policy
        reaction = policy.on_error
        limits = {"retry": policy.max_retries, "drop": policy.max_drops}
        if target.failures > limits.get(reaction, sys.maxsize):
            reaction = "raise"  # so many failures in a row do not pass
        if reaction in ("restart", "shrink"):
            self._replace(actor, error, reaction, lambda: target.dropped(request, header, "error"))
            return
        if reaction == "raise":
            fleet.errors.append(error)
        target.dropped(request, header, "retried" if reaction == "retry" else "error")
        fleet.leave_if_idle(actor)

    def message_failed(self, actor: Actor, failure: UserFailure) -> None:
        """A message's handler raised: there is no item to drop, and nobody to ask again."""
        fleet = self.fleet
        if fleet.log is not None:
            fleet.log("failed", actor.name, actor.incarnation, failure.type_name)
        if actor.status == "gone":
            return
        actor.counters["errors"] += 1
        where = f"{actor.name} > {failure.operator}" if failure.operator else actor.name
        error = OperatorError.build(failure, where, actor.name)
        mistaken = failure.type_name == "NoSuchMethod"  # a restart would not help
        if actor.policy.on_error == "restart" and not mistaken:
            self._replace(actor, error, "restart")
        else:
            fleet.errors.append(error)

    # -- the actor is gone ---------------------------------------------------------------------

    def lost(self, actor: Actor, reason: str, failure: UserFailure | None) -> None:
        """An actor died, hangs, or never came to life."""
        fleet = self.fleet
        if fleet.log is not None:
            fleet.log("lost", actor.name, actor.incarnation)
        actor.counters["lost"] += 1
        error: Exception
        if failure is not None:
            error = ActorStartError.of(failure, actor.handle.group.name, actor.name)
        else:
            error = WorkerLost(
                f"actor {actor.name!r} (incarnation {actor.incarnation}) was lost: {reason}. "
                "Policies on_failure='restart' and 'shrink' let a run go on."
            )
        if actor.status == "leaving":
            self._replace(actor, error, "leave")
        else:
            self._replace(actor, error, actor.policy.on_lost)

    def _replace(
        self,
        actor: Actor,
        error: Exception,
        reaction: str,
        settle: Callable[[], None] | None = None,
    ) -> None:
        """Count what an actor had as lost, then restart it, go on without it, or give up."""
        fleet = self.fleet
        actor.status = "waiting"  # nobody asks the actor for anything meanwhile
        if settle is not None:
            settle()
        lost = fleet.take_down(actor)
        if reaction == "restart":
            self._restart(actor, error)
        else:
            fleet.retire(actor)
            if reaction == "raise":
                actor.lost = True
                fleet.errors.append(error)
            elif reaction == "shrink":
                fleet.counters["shrunk"] += 1
                self._raise_if_last(actor, error)
            self._announce_gone(actor)
        for request in lost:
            request.target.dropped(request, None, "worker_lost")

    def _restart(self, actor: Actor, error: Exception) -> None:
        fleet, policy, now = self.fleet, actor.policy, self.fleet.engine.now()
        while actor.restarts and actor.restarts[0] < now - policy.window:
            actor.restarts.popleft()
        if len(actor.restarts) >= policy.max_restarts:
            fleet.retire(actor)
            error.add_note(
                f"given up on actor {actor.name!r}: restarted {len(actor.restarts)} times "
                f"within {policy.window:g} s"
            )
            actor.lost = True
            fleet.errors.append(error)
            self._announce_gone(actor)
            return
        pause = 0.0 if not actor.restarts else policy.backoff * 2 ** (len(actor.restarts) - 1)
        actor.restarts.append(now)
        actor.counters["restarts"] += 1
        actor.port.kill()
        fleet.office.died(actor)
        fleet.timers.at(now + pause, lambda: self._revive(actor))

    def _revive(self, actor: Actor) -> None:
        if actor.status != "waiting":
            return  # removed meanwhile
        actor.incarnation += 1
        actor.parked.clear()
        self.fleet.start(actor)
        actor.status = "live"
        for target in list(actor.targets):
            target.actor_back()

    def _raise_if_last(self, actor: Actor, error: Exception) -> None:
        others = self.fleet.group(actor.group)
        if not any(other.status in ("live", "waiting") for other in others):
            error.add_note(f"no actor of group {actor.handle.group.name!r} is left")
            self.fleet.errors.append(error)

    def _announce_gone(self, actor: Actor) -> None:
        for target in list(actor.targets):
            target.actor_gone()

    # -- the actor hangs -----------------------------------------------------------------------

    def watch(self, actor: Actor) -> None:
        """Look again when the oldest request may be overdue."""
        assert actor.policy.timeout is not None
        actor.watched = True
        due = self.fleet.engine.now() + actor.policy.timeout
        self.fleet.timers.at(due, lambda: self._look(actor))

    def _look(self, actor: Actor) -> None:
        """Is the oldest request overdue? Its time runs from when the actor could turn to it."""
        actor.watched = False
        timeout = actor.policy.timeout
        owes = actor.requests or actor.mail.crowded
        if timeout is None or not owes or actor.status not in ("live", "leaving"):
            return
        if not actor.started:  # a constructor may take as long as it needs
            self.watch(actor)
            return
        issued = next(iter(actor.requests.values())).issued if actor.requests else 0.0
        deadline = max(issued, actor.last_heard) + timeout
        if deadline <= self.fleet.engine.now():
            actor.counters["hung"] += 1
            self.lost(actor, f"hung: no answer for {timeout} s", None)
        else:
            actor.watched = True
            self.fleet.timers.at(deadline, lambda: self._look(actor))
