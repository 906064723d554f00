"""An actor that steps environments with its own copy of the policy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from rillflow.envs.make import make_envs
from rillflow.envs.vector import Envs
from rillflow.experience.batch import Array, SampleBatch
from rillflow.experience.fragment_writer import FragmentWriter
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.make_learner import make_learner
from rillflow.policies.make import make_actor
from rillflow.policies.spec import PolicySpec
from rillflow.types import ActorInfo

_LONG = 10**12
"""steps after which no schedule of exploration changes any more"""


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
        self.policy: Any = make_actor(spec, info.seed)
        self.obs: Array = self.envs.reset()
        self.memory: Array | None = None
        """what a policy that remembers knows of each environment; at first nothing"""
        if spec.state_shape is not None:
            self.memory = np.zeros((self.envs.num_envs, *spec.state_shape), np.float32)
        self.starts: Array = np.ones(self.envs.num_envs, bool)
        """where `obs` is the first of an episode"""
        self.weights: Mapping[str, Array] = {}
        """all of them, also those that acting does not need"""
        self.learner: Any = None
        self.steps = 0
        self.seconds = {"policy": 0.0, "environments": 0.0}
        """since the last answer, in acting and in stepping the environments"""
        self.total_steps = _LONG if _came_late(config, info) else 0
        """since the worker began; exploration follows them"""

    def sample(self) -> SampleBatch:
        """The next fragment, from where the last one ended."""
        epsilon = self.config.exploration(self.info.index, self.total_steps)
        fragment = FragmentWriter(self.config.rollout_fragment_length)
        before = self.memory
        if before is None:
            self._act(fragment, epsilon)
        else:
            self._act_and_remember(fragment, epsilon)
        batch = fragment.finish(self.obs, before)
        self.steps += batch.steps
        self.total_steps += batch.steps
        return batch

    def _act(self, fragment: FragmentWriter, epsilon: float) -> None:
        clock, acting, stepping = time.perf_counter, 0.0, 0.0
        for _ in range(fragment.length):
            began = clock()
            actions, logp = self.policy.act(self.obs, epsilon)
            acted = clock()
            step = self.envs.step(actions)
            acting, stepping = acting + acted - began, stepping + clock() - acted
            fragment.write(self.obs, actions, logp, step)
            self.obs = step.obs
        self._took(acting, stepping)

    def _act_and_remember(self, fragment: FragmentWriter, epsilon: float) -> None:
        clock, acting, stepping = time.perf_counter, 0.0, 0.0
        for _ in range(fragment.length):
            began = clock()
            actions, logp, self.memory = self.policy.act_recurrent(
                self.obs, self.memory, self.starts, epsilon
            )
            acted = clock()
            step = self.envs.step(actions)
            acting, stepping = acting + acted - began, stepping + clock() - acted
            fragment.write(self.obs, actions, logp, step, starts=self.starts)
            self.obs, self.starts = step.obs, step.starts
        self._took(acting, stepping)

    def _took(self, acting: float, stepping: float) -> None:
        """Told with the next answer: what `run.stats()` shows as parts of sampling."""
        self.seconds["policy"] += acting
        self.seconds["environments"] += stepping

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
            # the run's seed: a target network starts from the same weights everywhere
            # on the processor: `num_gpus` speaks of the driver's learner, of which there is one
            self.learner = make_learner(
                self.spec, self.config, self.info.run_seed, devices=("cpu",)
            )
            self.learner.set_weights(self.weights)
        return self.learner

    def pop_metrics(self) -> dict[str, Any] | None:
        """Steps made, episodes that ended and where time went since the last answer."""
        steps, self.steps = self.steps, 0
        if not steps:
            return None
        seconds, self.seconds = self.seconds, dict.fromkeys(self.seconds, 0.0)
        return {"steps": steps, "episodes": self.envs.pop_episodes(), "seconds": seconds}

    def get_state(self) -> dict[str, Any]:
        """All that the next fragments depend on; the environments' part is as exact as they are."""
        # both go on in C order, whoever is saved here and whoever is restored: the last bits of a
        # product of matrices depend on it
        self.obs = np.ascontiguousarray(self.obs)
        has_target = self.learner is not None and self.learner.target is not None
        return {
            "envs": self.envs.get_state(),
            "policy": self.policy.get_state(),
            "weights": dict(self.weights),
            "target": dict(self.learner.get_target_weights()) if has_target else None,
            "memory": self.memory,
            "starts": self.starts,
            "total_steps": self.total_steps,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there; environments that cannot be saved go on with new episodes."""
        self.envs.set_state(state["envs"])
        assert self.envs.obs is not None
        self.obs = self.envs.obs
        self.memory = state["memory"]
        self.starts = state["starts"] if self.envs.exact else np.ones(self.envs.num_envs, bool)
        self.total_steps = state["total_steps"]
        if state["weights"]:
            self.set_weights(state["weights"])
        self.policy.set_state(state["policy"])
        if state["target"] is not None:
            self.set_target(state["target"])

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()


def _came_late(config: AlgorithmConfig, info: ActorInfo) -> bool:
    """Whether others have explored before this worker: it was restarted, or it joined them.

    Nobody tells it how long. It explores as little as it would in the end: a worker that begins
    anew at random would fill replay with what the policy has long left behind.
    """
    return info.incarnation > 0 or info.index >= max(1, config.num_workers)
