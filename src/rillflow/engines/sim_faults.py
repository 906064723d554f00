"""Faults to inject on the `sim` engine: the bench on which recovery is tested, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Kill:
    """An actor dies: at a virtual time, or in the middle of its n-th request (counted from 1)."""

    actor: str
    at: float | None = None
    request: int | None = None
    late_result: bool = False
    """the dead incarnation's answer still arrives, after its successor has started"""


@dataclass(frozen=True, kw_only=True)
class Hang:
    """The n-th request of an actor is never answered."""

    actor: str
    request: int


@dataclass(frozen=True, kw_only=True)
class Fail:
    """The n-th request of an actor raises."""

    actor: str
    request: int
    message: str = "injected failure"


class InjectedFailure(RuntimeError):  # noqa: N818 - reads as what happened
    """What `Fail` raises."""


Fault = Kill | Hang | Fail
