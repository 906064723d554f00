"""The common half of our small vector environments: time, autoreset, seeds, state."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]


class ToyVector(VectorEnv[Array, Array, Array]):
    """A whole vector in arrays; a subclass says how episodes begin, look and go on.

    Episodes begin again within the step that ends them: in an environment of one step, a step
    that only resets would be every second one.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 - Gymnasium's own name
    saved: tuple[str, ...] = ()
    """attributes, besides the time, that are the state"""

    def __init__(
        self, num_envs: int, observation: Space[Any], action: Space[Any], limit: int | None = None
    ) -> None:
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = observation, action
        self.observation_space = batch_space(observation, num_envs)
        self.action_space = batch_space(action, num_envs)
        self.limit = limit
        """steps after which an episode is cut (truncated), if any"""
        self.time = np.zeros(num_envs, np.int64)

    def begin(self, rows: Bools) -> None:
        """Draw the start of the episodes in `rows`."""

    def observe(self) -> Array:
        """What is seen now, as a new array."""
        raise NotImplementedError

    def advance(self, actions: Array) -> tuple[Array, Bools]:
        """Rewards, and where the episode is over, after `time` has moved on by one."""
        raise NotImplementedError

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode everywhere."""
        super().reset(seed=seed)
        everywhere = np.ones(self.num_envs, bool)
        self.time[:] = 0
        self.begin(everywhere)
        return self.observe(), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Act everywhere; the last observation of an ended episode is in `info`."""
        self.time += 1
        rewards, terminated = self.advance(actions)
        late = self.time >= self.limit if self.limit else np.zeros(self.num_envs, bool)
        truncated = late & ~terminated
        done = terminated | truncated
        info: dict[str, Any] = {}
        if done.any():
            info = {"final_obs": self.observe(), "_final_obs": done}
            self.time[done] = 0
            self.begin(done)
        return self.observe(), rewards.astype(np.float32), terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        """All that the future depends on."""
        names = ("time", *self.saved)
        state = {name: copy.deepcopy(getattr(self, name)) for name in names}
        return {**state, "rng": copy.deepcopy(self.np_random.bit_generator.state)}

    def set_state(self, state: dict[str, Any]) -> None:
        """The reverse of `get_state`."""
        for name in ("time", *self.saved):
            setattr(self, name, copy.deepcopy(state[name]))
        self.np_random.bit_generator.state = copy.deepcopy(state["rng"])
