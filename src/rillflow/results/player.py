"""A trained policy that plays: with its memory, in environments that fit it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.envs.make import make_envs, name_of
from rillflow.envs.multiagent_mapping import agents_of
from rillflow.errors import BuildError
from rillflow.policies.make import make_actor
from rillflow.results.trained.policy import env_to_play

if TYPE_CHECKING:
    from rillflow.envs.vector import Envs
    from rillflow.policies.sampling import Array
    from rillflow.results.trained import Trained

EPSILON = 0.05
"""how often q values are not followed by a policy that is not greedy (Mnih et al. 2015)"""


class Player:
    """Acts in some environments side by side; a copy of the policy, so that nothing is disturbed.

    Args:
        trained: whose policy.
        greedy: the most likely actions; otherwise sampled ones.
        seed: of the sampling.
    """

    def __init__(self, trained: Trained, *, greedy: bool = True, seed: int = 0) -> None:
        self._policy: Any = make_actor(trained.spec, seed)
        self._policy.set_weights(trained.weights)
        self._recurrent, self._greedy = trained.spec.recurrent, greedy
        at_random = trained.spec.head == "q" and not trained.spec.noisy
        self._options = {"epsilon": EPSILON} if at_random else {}
        self._memory: Array | None = None

    def act(self, obs: Array, starts: Array) -> Array:
        """Actions for one observation of each environment; `starts`: those of new episodes."""
        actions: Array
        if not self._recurrent:
            if self._greedy:
                actions = self._policy.greedy(obs)
            else:
                actions, _ = self._policy.act(obs, **self._options)
            return actions
        if self._memory is None:
            self._memory = self._policy.initial_state(len(obs))
        seen = (obs, self._memory, starts)
        if self._greedy:
            actions, self._memory = self._policy.greedy_recurrent(*seen)
        else:
            actions, _, self._memory = self._policy.act_recurrent(*seen, **self._options)
        return actions


def env_of(trained: Trained) -> Any:
    """The environment it was trained in; a policy that was loaded may have none."""
    env = env_to_play(trained)
    if agents_of(env, trained.config.env_config) is not None:
        raise BuildError(
            f"environment {env_name(trained)!r} has several agents, and one policy alone cannot "
            "play in it: evaluate the directory with all of them."
        )
    return env


def open_envs(trained: Trained, env: Any, copies: int, seed: int, config: dict[str, Any]) -> Envs:
    """Environments that show what the policy was trained to see."""
    how = trained.config.preprocessing
    masks = trained.spec.masked  # as it was trained: an older one may have seen them as numbers
    envs = make_envs(
        env, copies, seed=seed, env_config=config, preprocessing=how, action_masks=masks
    )
    found, expected = np.shape(envs.observation_space.low), trained.spec.observation_shape
    if found != expected:
        envs.close()
        raise BuildError(
            f"this policy sees observations of shape {list(expected)}, and {envs.name!r} shows "
            f"{list(found)}: give the environment, and the env_config, it was trained with."
        )
    return envs


def env_name(trained: Trained) -> str:
    """What to call its environment."""
    env = trained.config.env
    if env is None and trained.origin is not None:
        env = trained.origin.env
    return env if isinstance(env, str) else "its own environment" if env is None else name_of(env)


def algorithm_name(trained: Trained) -> str:
    """What to call its algorithm: the name of the file that defines its settings."""
    return type(trained.config).__module__.rpartition(".")[2]
