"""What is evaluated, filmed and exported: a policy, or the one that a run has now."""

from __future__ import annotations

from typing import Any, Protocol


class HasPolicy(Protocol):
    """A run, which has a policy: `Trained`, or `TrainedAgents` of several agents."""

    @property
    def policy(self) -> Any:
        """As it is now."""


def policy_of(given: Any) -> Any:
    """A policy, given as it is or by its run; one of a run that goes on no longer changes."""
    return getattr(given, "policy", given)
