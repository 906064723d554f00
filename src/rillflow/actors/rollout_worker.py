"""An actor that steps environments with its own copy of the policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rillflow.actors.fragment import FragmentWriter
from rillflow.batch import Array, SampleBatch
from rillflow.envs.make import make_envs
from rillflow.envs.vector import Envs
from rillflow.policies.make import make_actor
from rillflow.policies.spec import PolicySpec
from rillflow.rl.config import AlgorithmConfig
from rillflow.types import ActorInfo


class RolloutWorker:
    """Samples fragments of experience; arrays are allocated once per fragment, time-major.

    Acting uses the NumPy policy where there is one, so that a worker need not import torch.
    """

    def __init__(self, config: AlgorithmConfig, spec: PolicySpec, info: ActorInfo) -> None:
        self.config = config
        self.spec = spec
        self.info = info
        self.envs: Envs = make_envs(
            config.env, config.num_envs_per_worker, seed=info.seed, env_config=config.env_config
        )
        self.policy = make_actor(spec, info.seed)
        self.obs: Array = self.envs.reset()
        self.weights: Mapping[str, Array] = {}
        """all of them, also those that acting does not need"""
        self.learner: Any = None
        self.steps = 0
        self.total_steps = 0
        """since this worker began; exploration follows them"""

    def sample(self) -> SampleBatch:
        """The next fragment, from where the last one ended."""
        epsilon = self.config.exploration(self.info.index, self.total_steps)
        fragment = FragmentWriter(self.config.rollout_fragment_length)
        for _ in range(self.config.rollout_fragment_length):
            actions, logp = self.policy.act(self.obs, epsilon)
            step = self.envs.step(actions)
            fragment.write(self.obs, actions, logp, step)
            self.obs = step.obs
        batch = fragment.finish(self.obs)
        self.steps += batch.steps
        self.total_steps += batch.steps
        return batch

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
        return self._learner().compute_gradients(batch)

    def _learner(self) -> Any:
        if self.learner is None:
            from rillflow.rl.learner import Learner

            # the run's seed: a target network starts from the same weights everywhere
            self.learner = Learner(self.spec, self.config, self.info.run_seed)
            self.learner.set_weights(self.weights)
        return self.learner

    def pop_metrics(self) -> dict[str, Any] | None:
        """Steps made and episodes that ended since the last answer."""
        steps, self.steps = self.steps, 0
        return {"steps": steps, "episodes": self.envs.pop_episodes()} if steps else None

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()
