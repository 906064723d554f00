"""Environments of RLlib's tests that are nowhere else: RepeatAfterMe, agents side by side, torques
in other units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import RescaleAction, TransformObservation


class RepeatAfterMe(gymnasium.Env[Any, Any]):
    """A hundred steps; each shows a bit, or two numbers, to be repeated `delay` steps later.

    A bit that is repeated pays 1, any other -1; numbers cost their distances. What lies before the
    first step is 0.
    """

    length = 100

    def __init__(self, delay: int = 1, continuous: bool = False) -> None:
        self.delay, self.continuous = delay, continuous
        space: Any = Box(-1.0, 1.0, (2,), np.float32) if continuous else Discrete(2)
        self.observation_space = self.action_space = space
        self.shown: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Nothing was shown before."""
        super().reset(seed=seed)
        nothing = np.zeros(2, np.float32) if self.continuous else 0
        self.shown = [nothing] * self.delay
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pay, and show the next."""
        wanted = self.shown[-1 - self.delay]
        if self.continuous:
            reward = -float(np.abs(np.asarray(action) - wanted).sum())
        else:
            reward = 1.0 if action == wanted else -1.0
        over = len(self.shown) - self.delay >= self.length
        return self._show(), reward, over, False, {}

    def _show(self) -> Any:
        if self.continuous:
            shown: Any = self.np_random.random(2).astype(np.float32)
        else:
            shown = int(self.np_random.integers(2))
        self.shown.append(shown)
        return shown


def transformed_pendulum() -> Any:
    """Pendulum-v1 with torques from 300 to 500."""
    return RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(300), np.float32(500))


class Several:
    """An environment for each of two agents, with PettingZoo's parallel face.

    An agent whose episode is over waits until that of the other one is, too.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.possible_agents = ["agent_0", "agent_1"]
        self.agents: list[str] = []
        self._envs = {agent: make() for agent in self.possible_agents}

    def observation_space(self, agent: str) -> Any:
        """That of its environment."""
        return self._envs[agent].observation_space

    def action_space(self, agent: str) -> Any:
        """That of its environment."""
        return self._envs[agent].action_space

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        """All begin, each with a seed of its own."""
        self.agents = list(self.possible_agents)
        seeds = [None, None] if seed is None else np.random.SeedSequence(seed).generate_state(2)
        first = {
            agent: env.reset(seed=None if given is None else int(given))
            for (agent, env), given in zip(self._envs.items(), seeds, strict=True)
        }
        return tuple({agent: both[i] for agent, both in first.items()} for i in (0, 1))

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Those whose episodes go on make a step."""
        steps = {agent: self._envs[agent].step(actions[agent]) for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (steps[agent][2] or steps[agent][3])]
        return tuple({agent: step[i] for agent, step in steps.items()} for i in range(5))

    def close(self) -> None:
        """Let all go."""
        for env in self._envs.values():
            env.close()


def two_pendulums() -> Several:
    """Each of two agents has a pendulum."""
    return Several(lambda: gymnasium.make("Pendulum-v1"))


def two_poles_without_velocities() -> Several:
    """Each of two agents has a pole, whose velocities it does not see."""
    return Several(_without_velocities)


def _without_velocities() -> Any:
    env = gymnasium.make("CartPole-v1")
    full: Any = env.observation_space
    seen = Box(full.low[::2], full.high[::2], dtype=np.float32)
    return TransformObservation(env, lambda obs: obs[::2], seen)
