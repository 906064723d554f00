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
from rillflow.types import Adaptive, Header

if TYPE_CHECKING:
    from rillflow.scheduler.fleet import Fleet


_WAY_OUT = " Policies on_failure='restart' and 'shrink' let a run go on."
_AWAY = 0.5
"""seconds by which a look may be late before it is the driver that was away"""


class Supervision:
    """Applies the policy of each actor."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._news: list[str] = []
        """what is to be told when all is in order again"""

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
        if failure.type_name == "Recycle" and actor.answered:
            self._recycle(actor, failure, lambda: target.dropped(request, header, "recycled"))
            return
        actor.counters["errors"] += 1
        target.failures += 1
        policy = actor.policy
        reaction = self._reaction(actor, failure)
        limits = {"retry": policy.max_retries, "drop": policy.max_drops}
        if target.failures > limits.get(reaction, sys.maxsize):
            reaction = "raise"  # so many failures in a row do not pass
        if reaction in ("restart", "shrink"):
            self._replace(actor, error, reaction, lambda: target.dropped(request, header, "error"))
            return
        told = ""
        if reaction == "raise":
            fleet.errors.append(error)
        else:
            then = "is asked again" if reaction == "retry" else "goes on without that item"
            count = actor.counters["errors"]
            if _worth_telling(count):
                which = f" (failure {count})" if count > 1 else ""
                told = f"{actor.name} failed and {then}{which}: {_brief(error)}"
        target.dropped(request, header, "retried" if reaction == "retry" else "error")
        fleet.leave_if_idle(actor)
        if told:
            self._tell(told)

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
        if self._reaction(actor, failure) == "restart" and not mistaken:
            self._replace(actor, error, "restart")
        else:
            fleet.errors.append(error)

    def _reaction(self, actor: Actor, failure: UserFailure) -> str:
        """What the policy says of an exception; a mistake is raised at once.

        Who has lost its GPU is as good as lost: to ask it again would not help, nor would a new
        actor in the same process.
        """
        if _is_mistake(actor, failure):
            return "raise"
        if failure.type_name == "DeviceLost":
            here = actor.inline or self.fleet.engine.actors_in_driver
            return "raise" if here else actor.policy.on_lost
        return actor.policy.on_error

    def _recycle(self, actor: Actor, failure: UserFailure, settle: Callable[[], None]) -> None:
        """The actor asks to be made anew: that is no failure, and no limit counts it."""
        fleet = self.fleet
        actor.status = "waiting"
        settle()
        lost = fleet.take_down(actor)
        actor.counters["recycled"] += 1
        fleet.counters["recycled"] += 1
        actor.port.kill()
        fleet.office.died(actor)
        fleet.timers.at(fleet.engine.now(), lambda: self._revive(actor))
        for request in lost:
            request.target.dropped(request, None, "recycled")
        self._tell(f"{actor.name} is made anew: {failure.message}")

    def _tell(self, text: str) -> None:
        for listener in self.fleet.on_fault:
            listener(text)

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
                f"actor {actor.name!r} (incarnation {actor.incarnation}) was lost: {reason}."
                f"{_WAY_OUT}"
            )
        reaction: str = actor.policy.on_lost
        if actor.status == "leaving":
            reaction = "leave"
        elif failure is not None and _is_mistake(actor, failure):
            reaction = "raise"  # a constructor that never worked will not work the next time
        self._replace(actor, error, reaction)

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
                self._news.append(f"{_brief(error)}; the run goes on without {actor.name}")
                self._raise_if_last(actor, error)
            self._announce_gone(actor)
        for request in lost:
            request.target.dropped(request, None, "worker_lost")
        news, self._news = self._news, []
        for text in news:  # last: who listens may raise
            self._tell(text)

    def _restart(self, actor: Actor, error: Exception) -> None:
        fleet, policy, now = self.fleet, actor.policy, self.fleet.engine.now()
        lost = isinstance(error, WorkerLost)  # what raises again and again is not bad luck
        if policy.in_a_row and lost and actor.answered:
            actor.restarts.clear()
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
        count = f"{len(actor.restarts)} of {policy.max_restarts}"
        self._news.append(f"{_brief(error)}; {actor.name} is restarted ({count})")

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
        timeout = self.timeout_of(actor)
        assert timeout is not None
        if isinstance(actor.policy.timeout, Adaptive):
            timeout = min(timeout, actor.policy.timeout.least)  # it may fall meanwhile
        self._look_at(actor, self.fleet.engine.now() + timeout)

    def timeout_of(self, actor: Actor) -> float | None:
        """Seconds that a request of an actor may take; None: for ever."""
        timeout = actor.policy.timeout
        if isinstance(timeout, Adaptive):
            return timeout.seconds(max(one.slowest for one in self.fleet.group(actor.group)))
        return timeout

    def _look_at(self, actor: Actor, due: float) -> None:
        actor.watched = True
        self.fleet.timers.at(due, lambda: self._look(actor, due))

    def _look(self, actor: Actor, due: float) -> None:
        """Is the oldest request overdue? Its time runs from when the actor could turn to it."""
        actor.watched = False
        timeout, now = self.timeout_of(actor), self.fleet.engine.now()
        owes = actor.requests or actor.mail.crowded
        if timeout is None or not owes or actor.status not in ("live", "leaving"):
            return
        answers = timeout
        if actor.started:
            issued = next(iter(actor.requests.values())).issued if actor.requests else 0.0
            deadline, why = max(issued, actor.last_heard) + timeout, "no answer for"
        elif actor.policy.start_timeout is None:  # a constructor may take as long as it needs
            self.watch(actor)
            return
        else:
            timeout = actor.policy.start_timeout
            deadline, why = actor.begun + timeout, "its constructor has not returned for"
        late = now - max(due, deadline)
        if late > _AWAY:  # the driver itself was away: perhaps the request has only just left
            self._look_at(actor, now + min(timeout, late))
        elif deadline <= now:
            actor.counters["hung"] += 1
            self.lost(actor, f"hung: {why} {timeout:.3g} s", None)
        else:  # one that has not started may have by then
            self._look_at(actor, min(deadline, now + answers))


def _worth_telling(count: int) -> bool:
    """Whether an actor's failure of this number is told: 1 to 3, then 10, 30, 100, ..."""
    return count <= 3 or str(count).rstrip("0") in ("1", "3")


def _is_mistake(actor: Actor, failure: UserFailure) -> bool:
    """Whether an exception will come again whatever is done."""
    policy = actor.policy
    unproven = policy.trial and not (actor.proven or actor.answered)
    return unproven or failure.type_name in policy.fatal


def _brief(error: Exception) -> str:
    """The first line of an error, for a sentence about it."""
    return str(error).partition("\n")[0].removesuffix(_WAY_OUT).rstrip(". ")
