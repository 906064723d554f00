"""What every actor that acts with a policy has: its weights, and gradients computed next to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning.acting_device import device_of
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.make_learner import make_learner
from rillflow.policies.make import make_actor, pop_notes_of
from rillflow.policies.spec import PolicySpec
from rillflow.types import ActorInfo

T = TypeVar("T")


class ActingWorker:
    """Holds a copy of the policy, and a learner once somebody asks for gradients.

    Acting uses the NumPy policy where there is one, so that a worker need not import torch; or a
    CUDA device, of which this process knows nothing before.
    """

    def __init__(self, config: AlgorithmConfig, spec: PolicySpec, info: ActorInfo) -> None:
        self.config = config
        self.spec = spec
        self.info = info
        device, note = device_of(spec, config, info.engine, info.index)
        self.policy: Any = make_actor(spec, info.seed, device)
        self._notes = [note] if note else []
        self.weights: Mapping[str, Array] = {}
        """all that were sent, also those that acting does not need"""
        self.learner: Any = None
        self.turns = 0
        """tasks that were begun here"""

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Act, and compute gradients, with these from now on."""
        self.policy.set_weights(weights)
        self.weights = weights
        if self.learner is not None:
            self.learner.set_weights(weights)

    def set_target(self, weights: Mapping[str, Array]) -> None:
        """Compute gradients with these weights of the target network from now on."""
        self._learner().set_target_weights(weights)

    def compute_gradients(self, batch: SampleBatch) -> Any:
        """Gradients of the loss on a batch, with this worker's weights."""
        learner = self._learner()
        learner.trained = self.steps_of_all()
        return learner.compute_gradients(batch)

    def reward_scale(self) -> dict[str, Any] | None:
        """What gradients computed here scale rewards by; None: none were, or rewards stay."""
        known = None if self.learner is None else self.learner.reward_scale
        return None if known is None else dict(known.get_state())

    def set_reward_scale(self, state: Mapping[str, Any]) -> None:
        """Scale rewards as it was done where this was saved."""
        known = self._learner().reward_scale
        if known is not None:
            known.set_state(state)

    def steps_of_all(self) -> int:
        """Steps that all workers have made, as far as one of them can tell: for schedules."""
        return 0

    def pop_notes(self) -> list[str]:
        """What a person should know of how this worker acts, once."""
        notes, self._notes = [*self._notes, *pop_notes_of(self.policy)], []
        return notes

    def next_turn(self) -> int:
        """The number of the next task, for `ParallelTasks`."""
        self.turns += 1
        return self.turns - 1

    def _learner(self) -> Any:
        if self.learner is None:
            # the run's seed: a target network starts from the same weights everywhere
            # on the processor: `num_gpus` speaks of the driver's learner, of which there is one
            self.learner = make_learner(
                self.spec, self.config, self.info.run_seed, devices=("cpu",)
            )
            self.learner.set_weights(self.weights)
        return self.learner
