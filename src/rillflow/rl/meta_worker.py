"""A rollout worker that adapts its policy to a task of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rillflow.envs import meta_tasks as tasks
from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning.config import AlgorithmConfig
from rillflow.policies.spec import PolicySpec
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.types import ActorInfo


class MetaWorker(RolloutWorker):
    """Keeps the meta-weights it was sent, and acts with what adaptation has made of them since.

    Torch is imported at the first step of adaptation.
    """

    def __init__(self, config: AlgorithmConfig, spec: PolicySpec, info: ActorInfo) -> None:
        super().__init__(config, spec, info)
        self.last: SampleBatch | None = None
        """the round that the next step of adaptation learns from"""
        self.task_seed: int | None = None

    def sample(self) -> SampleBatch:
        """A round: episodes from their beginning, all with the same policy."""
        self.obs = self.envs.reset()
        self.last = super().sample()
        return self.last

    def adapt(self) -> None:
        """One step of adaptation to the last round.

        A worker that was restarted after it had sampled has nothing to adapt to, and goes on as it
        is: its rounds say with which probabilities they were made, so they are still worth having.
        """
        if self.last is not None:
            learner = self._learner()
            learner.set_weights(self.adapted_weights())
            learner.trained = self.steps_of_all()
            self.policy.set_weights(learner.adapt(self.last))
            self.last = None

    def adapted_weights(self) -> dict[str, Array]:
        """The meta-weights, with those that decide what is done as adaptation has left them."""
        return {**self.weights, **self.policy.get_weights()}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Begin again from these meta-weights."""
        super().set_weights(weights)
        self.last = None

    def set_task(self, task: Any) -> None:
        """All rounds from now on are of this task."""
        tasks.set_task(self.envs, task)
        self.last = None

    def draw_task(self, seed: int) -> None:
        """Take this worker's own among the tasks that the seed gives for all workers."""
        count = max(self.config.num_workers, self.info.index + 1)
        self.set_task(tasks.sample_tasks(self.envs, count, seed)[self.info.index])
        self.task_seed = seed

    def get_state(self) -> dict[str, Any]:
        """As any worker's; also its task, and the round it has not adapted to yet."""
        last = None if self.last is None else dict(self.last)
        return {**super().get_state(), "task_seed": self.task_seed, "last": last}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there, with the policy as adapted as it was."""
        super().set_state(state)
        if state["task_seed"] is not None:
            self.draw_task(state["task_seed"])
        self.last = None if state["last"] is None else SampleBatch(state["last"])

    def _learner(self) -> Any:
        if self.learner is None:
            from rillflow.learning.meta_learner import MetaLearner

            # on the processor: `num_gpus` speaks of the learner in the driver
            seed = self.info.run_seed
            self.learner = MetaLearner(self.spec, self.config, seed, devices=("cpu",))
        return self.learner
