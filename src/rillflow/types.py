"""Small values shared by every layer: who made an item, who an actor is, how failures are met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rillflow.errors import UserFailure

Placement = Literal["process", "thread", "driver"]
"""Where an actor lives: its own process (or Ray actor), a thread of the driver, or the driver."""


class Versions(dict[str, int]):
    """The newest version an actor had been sent on each channel; never changed, only replaced."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return Versions, (dict(self),)


NO_VERSIONS = Versions()


class Source(NamedTuple):
    """Which request made an item: actor, its incarnation, a sequence number, versions it had."""

    actor: str
    incarnation: int
    seq: int
    versions: Versions = NO_VERSIONS
    """by channel: the `key` of versioned messages, or their method"""

    @property
    def version(self) -> int:
        """The version on the only channel there is; 0 if there is none."""
        if len(self.versions) > 1:
            raise KeyError(
                f"{self.actor} is sent versions on several channels, {sorted(self.versions)}; "
                "ask for one with source.versions[channel]"
            )
        return next(iter(self.versions.values()), 0)


Provenance = tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class ActorInfo:
    """What an actor may know about itself; given to a constructor that has an `info` parameter."""

    name: str
    index: int
    incarnation: int
    seed: int
    """its own; another one after a restart"""
    run_seed: int = 0
    """the run's, the same for all actors"""
    engine: str = "sim"
    """name of the engine it lives on; a flow of its own can run on the same kind"""
    asked: int = 0
    """requests that earlier incarnations were given: a source that counts goes on from there"""


class Ref:
    """An item that has not been read: it can be forwarded to an actor without a copy."""

    __slots__ = ()

    def get(self) -> Any:
        """Read the value; arrays in it are read-only."""
        raise NotImplementedError


def read(value: Any) -> Any:
    """A value with its references read: itself, or the elements of a list or tuple of them."""
    if isinstance(value, Ref):
        return value.get()
    kind = type(value)
    if kind is list or kind is tuple:
        return kind(v.get() if isinstance(v, Ref) else v for v in value)
    return value


Reaction = Literal["raise", "drop", "retry", "restart", "shrink"]


@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """A deadline that follows what was measured: a multiple of the slowest answer of the group."""

    times: float = 20.0
    """as many times the slowest answer that any actor of the group has given"""
    least: float = 60.0
    """seconds that the deadline never falls below"""
    first: float = 600.0
    """seconds for an actor of a group of which nobody has ever answered"""

    def seconds(self, slowest: float) -> float:
        """The deadline; `slowest` is 0 before the first answer."""
        return max(self.least, self.times * slowest) if slowest else max(self.least, self.first)


@dataclass(frozen=True, kw_only=True)
class FailurePolicy:
    """What a run does when user code raises in an actor, or when the actor itself is lost."""

    on_error: Reaction = "raise"
    """user code raised, the actor is alive: raise, drop the item, retry (a new request), restart
    the actor, or shrink (go on without it)"""
    on_lost: Literal["raise", "restart", "shrink"] = "raise"
    """the actor died or hung: raise, restart it as a new incarnation, or go on without it"""
    max_retries: int = 3
    """failures in a row of one shard before `retry` gives up and raises"""
    max_drops: int = 100
    """failures in a row of one shard before `drop` gives up and raises"""
    max_restarts: int = 5
    """restarts of one actor within `window` before its last error is raised"""
    window: float = 60.0
    """seconds over which restarts are counted"""
    in_a_row: bool = False
    """whether an actor that was lost after it had answered begins its count of restarts anew; what
    raises is counted in any case"""
    backoff: float = 0.1
    """seconds before the second restart in a row; doubled each time; the first is at once"""
    timeout: float | Adaptive | None = None
    """seconds a request may take before the actor counts as hung and is killed"""
    start_timeout: float | None = None
    """seconds a constructor may take before the actor counts as hung, if requests have a limit"""
    trial: bool = False
    """whether an exception is raised, whatever `on_error` says, as long as the actor has answered
    nothing in any of its incarnations: what fails from the start is a mistake, and stays broken"""
    fatal: tuple[str, ...] = ()
    """names of exceptions that are always raised: they tell of a mistake, not of a fault"""
    snapshot: float | None = None
    """seconds between two snapshots of a background operator in a process, from the newest of
    which a restarted one goes on; None: a restarted one begins anew"""

    @staticmethod
    def of(policy: FailurePolicy | Reaction | None) -> FailurePolicy:
        """A policy from its short name."""
        if policy is None:
            return FailurePolicy()
        if isinstance(policy, FailurePolicy):
            return policy
        if policy in ("restart", "shrink"):
            return FailurePolicy(on_error=policy, on_lost=policy)
        return FailurePolicy(on_error=policy)


class Header(NamedTuple):
    """The small part of an answer: all the scheduler needs, without the data itself."""

    items: tuple[tuple[int, ...], ...] = ()
    """for each item in the payload, the sequence numbers it was made from"""
    dropped: tuple[tuple[int, str], ...] = ()
    """sequence numbers that ended inside the actor, and the operator that rejected them; the
    operator is empty if they were lost with a failure"""
    kept: tuple[int, ...] = ()
    """sequence numbers in `items` or `dropped` of which a part stays inside the actor"""
    ended: bool = False
    not_ready: bool = False
    handled: int = 0
    """messages that this incarnation of the actor had handled"""
    wall: float = 0.0
    """seconds the request took inside the actor"""
    cpu: float = 0.0
    """seconds of processor time it used there"""
    op_times: tuple[float, ...] = ()
    """seconds per operator of the shard: the source first, then its transforms"""
    metrics: Mapping[str, Any] | None = None
    """what the actor's `pop_metrics()` returned, if it has one"""
    failure: UserFailure | None = None
    """what user code raised; then there are no items"""
