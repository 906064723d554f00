"""What a training run does when its parts fail: the settings of a run as policies of its actors.

Workers, replay actors and aggregators can be made anew: what they know comes again, or is sent to
them. A learner cannot, but for its last snapshot. What raises from the start, or breaks the
contract of environments, is a mistake, and ends a run whatever the settings say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rillflow.types import Adaptive, FailurePolicy, Placement

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig

SNAPSHOT = 5.0
"""seconds between two snapshots of a learner that has a process of its own"""
_START = 300.0
"""seconds for a constructor: imports, environments, a first reset"""
_MISTAKES = ("BuildError", "EnvError")
"""exceptions by which environments and settings break their contract: nothing is gained by going on
with them (what an environment *raises* has a name of its own)"""


def worker_policy(config: AlgorithmConfig) -> FailurePolicy:
    """Of rollout workers, and of everything else that has no policy of its own.

    >>> from rillflow.algorithms import ppo
    >>> policy = worker_policy(ppo.Config(on_failure="retry", worker_timeout=30))
    >>> policy.on_error, policy.on_lost, policy.timeout
    ('retry', 'restart', 30)

    Whoever is asked again, or goes on without an item, has to be there: with `retry` and `drop` a
    worker that is lost is restarted.
    """
    reaction = config.on_failure
    return FailurePolicy(
        on_error=reaction,
        on_lost="restart" if reaction in ("retry", "drop") else reaction,  # type: ignore[arg-type]
        max_restarts=config.max_restarts,
        in_a_row=True,
        timeout=deadline(config.worker_timeout),
        start_timeout=_START,
        trial=True,
        fatal=_MISTAKES,
    )


def keeper_policy(config: AlgorithmConfig) -> FailurePolicy:
    """Of actors that others depend on, as replay: one that is lost comes back, empty.

    What raises in such an actor is no fault of an environment, and ends the run.
    """
    return FailurePolicy(
        on_lost="raise" if config.on_failure == "raise" else "restart",
        max_restarts=config.max_restarts,
        in_a_row=True,
        timeout=deadline(config.worker_timeout),
        start_timeout=_START,
    )


def learner_policy(config: AlgorithmConfig, placement: Placement) -> FailurePolicy:
    """Of a learner: one whose process is lost goes on from its last snapshot.

    A thread cannot be ended from outside: where one hangs, the run ends.
    """
    lasting = placement == "process" and config.on_failure != "raise"
    return FailurePolicy(
        on_lost="restart" if lasting else "raise",
        max_restarts=config.max_restarts,
        in_a_row=True,
        timeout=deadline(config.worker_timeout),
        start_timeout=_START,
        snapshot=SNAPSHOT if lasting else None,
    )


def deadline(seconds: float | None) -> float | Adaptive | None:
    """A limit for one request as policies take it; 0 is none, None follows what is measured."""
    if seconds is None:
        return Adaptive()
    return seconds or None
