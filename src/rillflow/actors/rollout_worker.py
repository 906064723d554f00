"""An actor that steps environments with its own copy of the policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rillflow.batch import BOOTSTRAP, Array, SampleBatch
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
        length = self.config.rollout_fragment_length
        columns: dict[str, Array] = {}
        epsilon = self.config.exploration(self.info.index, self.total_steps)
        for t in range(length):
            actions, logp = self.policy.act(self.obs, epsilon)
            step = self.envs.step(actions)
            if t == 0:
                columns = self._allocate(length, actions, step)
            columns["obs"][t] = self.obs
            columns["actions"][t] = actions
            columns["logp"][t] = logp
            columns["rewards"][t] = step.rewards
            columns["terminated"][t] = step.terminated
            columns["truncated"][t] = step.truncated
            if step.valid is not None:
                columns["valid"][t] = step.valid
            if step.next_obs is not None:
                columns["next_obs"][t] = step.next_obs
            self.obs = step.obs
        columns[BOOTSTRAP] = np.array(self.obs)
        batch = SampleBatch(columns)
        self.steps += batch.steps
        self.total_steps += batch.steps
        return batch

    def _allocate(self, length: int, actions: Array, step: Any) -> dict[str, Array]:
        envs = self.config.num_envs_per_worker
        shape = (length, envs)
        columns = {
            "obs": np.empty((length, *self.obs.shape), self.obs.dtype),
            "actions": np.empty((length, *actions.shape), actions.dtype),
            "logp": np.empty(shape, np.float32),
            "rewards": np.empty(shape, np.float32),
            "terminated": np.empty(shape, np.bool_),
            "truncated": np.empty(shape, np.bool_),
        }
        if step.valid is not None:
            columns["valid"] = np.empty(shape, np.bool_)
        if step.next_obs is not None:
            columns["next_obs"] = np.empty_like(columns["obs"])
        return columns

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Act, and compute gradients, with these from now on."""
        self.policy.set_weights(weights)
        self.weights = weights
        if self.learner is not None:
            self.learner.set_weights(weights)

    def compute_gradients(self, batch: SampleBatch) -> Any:
        """Gradients of the loss on a batch, with this worker's weights."""
        if self.learner is None:
            from rillflow.rl.learner import Learner

            self.learner = Learner(self.spec, self.config, self.info.seed)
            self.learner.set_weights(self.weights)
        return self.learner.compute_gradients(batch)

    def pop_metrics(self) -> dict[str, Any] | None:
        """Steps made and episodes that ended since the last answer."""
        steps, self.steps = self.steps, 0
        return {"steps": steps, "episodes": self.envs.pop_episodes()} if steps else None

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()
