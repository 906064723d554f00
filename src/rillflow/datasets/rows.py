"""From stretches of episodes to rows to learn from: encoded, and n steps ahead."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rillflow.datasets.reading import Dataset, Stretch
from rillflow.envs.layout import all_finite, layout_of
from rillflow.envs.preprocessing import Preprocessing, preprocessed
from rillflow.envs.spaces import actions_of, choices_of, observations_of
from rillflow.errors import BuildError
from rillflow.experience import n_step_transitions
from rillflow.experience.batch import Array


class RowsOf:
    """Rows of a dataset as a policy takes them.

    Each has `obs`, `actions`, the `rewards` of `n_step` steps, the `discount` of what follows them
    (0 where the episode terminated) and `next_obs`, the observation after them.

    Args:
        dataset: open.
        n_step: steps that a row looks ahead, or to the end of its episode.
        gamma: discount factor.
        how: what is done to observations.
        masks: whether masks of actions are looked for in observations.
    """

    def __init__(
        self,
        dataset: Dataset,
        n_step: int = 1,
        gamma: float = 0.99,
        how: Preprocessing | None = None,
        masks: bool = True,
    ) -> None:
        self.dataset, self.n_step, self.gamma = dataset, n_step, gamma
        name = dataset.name
        how = how or Preprocessing()
        if how.frame_stack > 1:
            raise BuildError(
                f"dataset {name!r}: frame_stack={how.frame_stack} stacks frames while an "
                "environment is played, and rows of a dataset stand alone: leave it out, or "
                "record stacked observations (gymnasium.wrappers.FrameStackObservation)."
            )
        self.action_space: Any = actions_of(dataset.action_space, name).space
        choices = sum(choices_of(self.action_space)) if masks else 0
        seen = observations_of(dataset.observation_space, name, choices)
        self._observations = preprocessed(seen, how, name)
        self._layout = layout_of(self._observations.space)

    @property
    def observation_space(self) -> Any:
        """Of one observation, as the policy sees it."""
        return self._observations.space

    @property
    def row_bytes(self) -> int:
        """Memory that one row takes."""
        space: Any = self._observations.space
        actions = 8 * prod(self.action_space.shape or ())
        seen: int = prod(space.shape) * space.dtype.itemsize
        return 2 * seen + actions + 8

    def take(self, episode: int, begin: int, end: int) -> dict[str, Array]:
        """The rows of some steps of an episode."""
        whole = int(self.dataset.lengths[episode])
        ahead = min(whole, end + self.n_step - 1)
        own = self.dataset.read(episode, begin, end)
        obs = self.encoded(own.obs, episode)
        columns = {"actions": flat_actions(self.dataset.action_space, own.actions)}
        following = own if ahead == end else self.dataset.rewards(episode, begin, ahead)
        rows = self._ahead(following, end - begin)
        last = rows.pop("last")
        if self.n_step == 1:
            rows["next_obs"] = obs[1:]
        else:
            rows["next_obs"] = self._after(episode, begin, last, obs)
        return {"obs": obs[:-1], **columns, **rows}

    def encoded(self, raw: Any, episode: int) -> Array:
        """Observations as the policy sees them."""
        obs = self._observations.encode(raw)
        if not all_finite(obs, self._layout):
            name = self.dataset.episodes[episode]
            raise self.dataset.wrong(f"an observation of {name} is not finite")
        return obs

    def _ahead(self, steps: Stretch, count: int) -> dict[str, Array]:
        """Rewards and discounts, and for each row the last step that it looks at."""
        number = np.arange(len(steps.rewards), dtype=np.int64)
        columns = {
            "rewards": steps.rewards.astype(np.float32),
            "terminated": steps.terminated,
            "truncated": steps.truncated,
            "next_last": number,
        }
        lanes = {name: column[:, None] for name, column in columns.items()}
        rows = n_step_transitions(lanes, self.n_step, self.gamma, count)
        return {
            "rewards": rows["rewards"].astype(np.float32),
            "discount": rows["discount"],
            "last": rows["next_last"],
        }

    def _after(self, episode: int, begin: int, last: Array, obs: Array) -> Array:
        """The observations after the last steps that rows look at."""
        wanted = last + 1
        far = np.unique(wanted[wanted >= len(obs)])
        if not len(far):
            near_by: Array = obs[wanted]
            return near_by
        first, end = int(far[0]), int(far[-1])
        beyond = self.dataset.read(episode, begin + first, begin + end)
        more = self.encoded(beyond.obs, episode)
        out = np.empty((len(wanted), *obs.shape[1:]), obs.dtype)
        near = wanted < len(obs)
        out[near], out[~near] = obs[wanted[near]], more[wanted[~near] - first]
        return out


def flat_actions(space: Space[Any], raw: Any) -> Array:
    """Actions of an environment as a policy gives them: the way back of `envs.spaces.actions_of`.

    >>> flat_actions(spaces.Discrete(3, start=1), np.array([1, 3]))
    array([0, 2])
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = list(_flat_parts(space, raw))
        if len(parts) == 1:
            return parts[0]
        # choices first, as a policy has them; beside numbers they are numbers
        parts.sort(key=lambda part: part.dtype.kind == "f")
        mixed = np.float32 if parts[-1].dtype.kind == "f" else np.int64
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1, dtype=mixed)
    if isinstance(space, spaces.Discrete):
        return np.asarray(raw, np.int64) - int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return (np.asarray(raw, np.int64) - space.start).reshape(len(raw), -1)
    if isinstance(space, spaces.MultiBinary):
        return np.asarray(raw, np.int64).reshape(len(raw), -1)
    return np.asarray(raw, np.float32)


def _flat_parts(space: Any, raw: Any) -> Iterator[Array]:
    """Those of a Dict or Tuple, however deep they are."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        yield flat_actions(space, raw)
        return
    keys: Any = space.spaces if isinstance(space, spaces.Dict) else range(len(space.spaces))
    for key in keys:
        yield from _flat_parts(space[key], raw[key])
