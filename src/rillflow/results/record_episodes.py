"""Episodes of a policy, recorded as a dataset to learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.algorithms import get_algorithm
from rillflow.arguments import check_count
from rillflow.datasets.checking import Summary
from rillflow.datasets.location import h5py_of
from rillflow.datasets.writing import DatasetWriter
from rillflow.errors import BuildError, RunError
from rillflow.experience.batch import Array
from rillflow.policies.explorers import random_actions
from rillflow.policies.make import make_actor
from rillflow.results.player import Player, algorithm_name, env_name, env_of, open_envs
from rillflow.results.recorded_env import Tape, single_env
from rillflow.results.trained import Trained

if TYPE_CHECKING:
    from rillflow.envs.vector import Envs

Act = Callable[[Array, Array, np.random.Generator], Array]
_COPIES = 8
"""environments that are played side by side"""


def record_data(
    trained: Trained | str,
    path: str | Path,
    episodes: int | None = None,
    *,
    steps: int | None = None,
    epsilon: float = 0.0,
    greedy: bool = True,
    act: Act | None = None,
    seed: int = 1,
    append: bool = False,
    max_steps: int = 100_000,
) -> Summary:
    """Play whole episodes and write them as a dataset in Minari's format; tells what was written.

    What is recorded are the environment's own observations, actions and rewards, before anything is
    made of them for the policy. The same seed gives the same episodes.

    Args:
        trained: whose policy plays, what `train` or `load` returned; or an environment's id, in
            which actions are uniformly random.
        path: the directory to be made.
        episodes: how many; or else
        steps: whole episodes until there are at least so many steps.
        epsilon: how often an action is uniformly random instead.
        greedy: the most likely actions; False: sampled ones.
        act: `act(actions, observations, rng)`, what is done instead of what the policy says.
        seed: of the environments and of all that is random.
        append: add to a dataset that is there, as for data of several policies.
        max_steps: an episode that takes longer than this is an error: it may never end.
    """
    if (episodes is None) == (steps is None):
        raise BuildError("record_data: say either how many episodes, or how many steps.")
    check_count("episodes" if steps is None else "steps", episodes if steps is None else steps)
    check_count("max_steps", max_steps)
    if not 0 <= epsilon <= 1:
        raise BuildError(f"epsilon must be between 0 and 1, got {epsilon!r}.")
    h5py_of("a dataset")
    if isinstance(trained, str):
        trained, epsilon = untrained(trained), 1.0
    player = _Recorded(trained, greedy, epsilon, act, seed)
    env, tapes = env_of(trained), list[Tape]()

    def make() -> Tape:
        tapes.append(Tape(single_env(env, trained.config.env_config, env_name(trained))))
        return tapes[-1]

    copies = 1 if episodes is None else min(episodes, _COPIES)
    envs = open_envs(trained, make, copies, seed, {})
    try:
        space, about = envs.vector, _about(trained, epsilon, tapes[0].env)
        spaces = space.single_observation_space, space.single_action_space
        with DatasetWriter(path, *spaces, about, append=append) as writer:
            returns, total = [], 0
            for observed, acted, rewards, ends in _episodes(
                envs, tapes, player, episodes, steps, max_steps
            ):
                writer.add(observed, acted, rewards, terminated=ends[0], truncated=ends[1])
                returns.append(float(np.sum(rewards)))
                total += len(rewards)
    finally:
        envs.close()
    return Summary(str(path), len(returns), total, tuple(returns), env_name(trained))


def untrained(env: str) -> Trained:
    """A policy that nobody has trained, for actions that are random anyway."""
    from rillflow.envs.make import make_envs
    from rillflow.policies.make import first_weights

    config = get_algorithm("bc").Config(env=env)
    envs = make_envs(env, 1, **config.env_settings)
    try:
        spec = config.policy_spec(envs.observation_space, envs.action_space)
    finally:
        envs.close()
    return Trained(config, spec, dict(first_weights(spec, 0)), [])


class _Recorded:
    """A player whose actions are changed: by the user's function, then by chance."""

    def __init__(
        self, trained: Trained, greedy: bool, epsilon: float, act: Act | None, seed: int
    ) -> None:
        self._player = Player(trained, greedy=greedy, seed=seed)
        self._spec = make_actor(trained.spec, 0).spec
        self._epsilon, self._act = epsilon, act
        self._rng = np.random.default_rng(seed)

    def act(self, obs: Array, starts: Array) -> Array:
        """What is done."""
        actions = self._player.act(obs, starts)
        if self._act is not None:
            actions = np.asarray(self._act(actions, obs, self._rng), actions.dtype)
        if self._epsilon:
            mask = None if self._spec.layout is None else self._mask(obs)
            drawn = random_actions(self._spec, len(obs), self._rng, mask).astype(actions.dtype)
            chosen = self._rng.random(len(obs)) < self._epsilon
            actions = np.where(chosen.reshape(-1, *[1] * (actions.ndim - 1)), drawn, actions)
        return actions

    def _mask(self, obs: Array) -> Array | None:
        assert self._spec.layout is not None, "there is one, or this is not asked"
        return self._spec.layout.mask(obs) if self._spec.masked else None


def _episodes(
    envs: Envs,
    tapes: list[Tape],
    player: _Recorded,
    episodes: int | None,
    steps: int | None,
    most: int,
) -> Iterator[Any]:
    """Whole episodes, from each environment its share: the first to finish are the short ones."""
    share = [0] * len(tapes)
    if episodes is not None:
        share = [episodes // len(tapes) + (i < episodes % len(tapes)) for i in range(len(tapes))]
    left = 0 if steps is None else steps
    obs, starts = envs.reset(), np.ones(len(tapes), bool)
    while any(share) or left > 0:
        step = envs.step(player.act(obs, starts))
        for index, tape in enumerate(tapes):
            if len(tape.rewards) >= most:
                raise RunError(
                    f"record_data: an episode of {envs.name!r} did not end in {most} steps: give "
                    "the environment a limit (gymnasium.wrappers.TimeLimit), or a larger max_steps."
                )
            episode = tape.pop()
            if episode is not None and (share[index] or left > 0):
                share[index] -= bool(share[index])
                left -= len(episode[2])
                yield episode
        obs, starts = step.obs, step.starts


def _about(trained: Trained, epsilon: float, env: Any) -> dict[str, Any]:
    """What the dataset says of itself."""
    name = algorithm_name(trained)
    what = f"{name}, with {epsilon:g} of actions random" if epsilon else name
    told = {"algorithm_name": "random" if epsilon == 1 else what}
    try:
        told["env_spec"] = env.spec.to_json()
    except (AttributeError, TypeError, ValueError):
        return told  # an environment of one's own may have none, or settings that JSON cannot say
    return told
