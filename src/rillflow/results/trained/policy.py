"""A trained policy: act with it, evaluate it, save it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from rillflow.envs.as_policy_sees import as_policy_sees
from rillflow.envs.spaces import clip_to_box
from rillflow.errors import BuildError, RunError
from rillflow.experience.batch import Array
from rillflow.learning.config import AlgorithmConfig
from rillflow.policies.make import make_actor
from rillflow.policies.spec import PolicySpec
from rillflow.results.config_as_json import plain_settings
from rillflow.safety.consent import refusal
from rillflow.scheduler.stats import RunStats

_FIGURES = 1_000_000
"""of a history that are saved; of a longer one every second, third, ... row is"""


@dataclass(frozen=True)
class Origin:
    """The file that a policy was loaded from, and what it names that the user has not."""

    path: Path
    env: str | None
    """the environment, if the file has its name"""
    untrusted: Mapping[str, str]
    """names of code, and what each is the name of"""


class Trained:
    """A trained policy: act with it, evaluate it, save it; `history` has a row per result."""

    def __init__(
        self,
        config: AlgorithmConfig,
        spec: PolicySpec,
        weights: dict[str, Array],
        history: list[dict[str, float]],
        stats: RunStats | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.config = config
        self.spec = spec
        self.weights = weights
        self.history = history
        self.stats = stats
        """per operator rates and the verdict on the bottleneck; `print` it. None: it was loaded"""
        self.origin = origin
        """the file that it was loaded from"""
        self.best: Trained | None = None
        """of what `train` returns: the best policy of the run, where one was judged"""
        self.judged: Mapping[str, Any] | None = None
        """of a best policy: by what it was judged, its score, and after how many steps"""
        self._policy: Any = make_actor(spec, 0)
        self._policy.set_weights(weights)
        self._memory: Array | None = None

    def __repr__(self) -> str:
        from rillflow.results.player import algorithm_name, env_name

        told = f"policy trained by {algorithm_name(self)} on {env_name(self)}"
        if self.judged is not None:
            by, score, steps = (self.judged[word] for word in ("by", "score", "steps"))
            told += f": {by} {score:,.1f} after {steps:,} steps"
        return f"<{told}>"

    def act(
        self, obs: Any, starts: bool | Array = False, *, action_mask: Array | None = None
    ) -> Array:
        """The most likely action: for one observation, or for several stacked.

        Observations are as the environment gives them: an index, bits, an image of its own size, a
        dict or a tuple of parts. One with a mask of actions under `action_mask` rules out what is
        forbidden; a mask that comes in infos is given as `action_mask`.

        Continuous actions are within the bounds of their space. Choices count from 0, and an action
        of several parts is one array: choices first, then numbers.

        A policy that remembers goes on from what it saw in earlier calls; say where an episode
        `starts`, in one flag or in one for each observation.
        """
        several, single = self._encoded(obs, action_mask)
        actions = self._greedy(several, np.broadcast_to(starts, len(several)))
        if isinstance(self.spec.action_space, Box):
            actions = clip_to_box(actions, self.spec.action_space)
        return actions[0] if single else actions

    def _encoded(self, obs: Any, action_mask: Array | None) -> tuple[Array, bool]:
        """Observations [B, *shape] as the policy sees them, and whether it was but one."""
        spec: PolicySpec = self._policy.spec
        seen, single = as_policy_sees(spec.observation_space, obs, action_mask)
        if self.config.frame_stack > 1 and seen.shape[1:] != spec.observation_shape:
            raise RunError(
                f"this policy sees the last {self.config.frame_stack} observations as one "
                f"(frame_stack), of shape {list(spec.observation_shape)}, and act() was given "
                f"{list(seen.shape[1:])}: rillflow.envs.make_envs(env, 1, "
                "preprocessing=policy.config.preprocessing) shows them so, and evaluate() plays."
            )
        return seen, single

    def _greedy(self, obs: Array, starts: Array) -> Array:
        if not self.spec.recurrent:
            actions: Array = self._policy.greedy(obs)
            return actions
        if self._memory is None or len(self._memory) != len(obs):
            self._memory = self._policy.initial_state(len(obs))
        actions, self._memory = self._policy.greedy_recurrent(obs, self._memory, starts)
        return actions

    def evaluate(self, episodes: int = 20, *, seed: int = 1) -> list[float]:
        """Returns of whole episodes, acting greedily, in environments of their own.

        `rillflow.results.evaluate` says more of the same episodes: lengths, intervals.
        """
        from rillflow.results.evaluation import evaluate

        return list(evaluate(self, episodes, seed=seed).returns)

    def save(self, path: str | Path) -> None:
        """Weights, settings and history in one file of plain arrays and JSON, without pickle.

        Code is not saved: an environment, a network or a loss of your own is given again to `load`.
        """
        from rillflow.policies.saved import save_policy

        settings = plain_settings(self.config)
        if self.origin is not None and self.config.env is None:
            settings["env"] = self.origin.env
        module = type(self.config).__module__
        about = {"settings": settings, "config": module, "history": thinned(self.history)}
        if self.judged is not None:
            about["judged"] = dict(self.judged)
        save_policy(path, self.spec, self.weights, about)


def env_to_play(trained: Trained) -> Any:
    """The environment of a policy; an error says what the user has to give or to agree to."""
    if trained.origin is not None and trained.origin.untrusted:
        names = ", ".join(map(repr, trained.origin.untrusted))
        way = f"load it with trust=[{names}]."
        raise BuildError(refusal(trained.origin.path, trained.origin.untrusted, way))
    if trained.config.env is None:
        raise BuildError(
            "this policy was trained in an environment of your own, and code is not saved: "
            "load it with env=..."
        )
    return trained.config.env


def thinned(history: list[dict[str, float]]) -> list[dict[str, float]]:
    """As much of a history as a file may hold: all of it, or every n-th row and the last."""
    every = -(-sum(map(len, history)) // _FIGURES)
    return history if every <= 1 else history[::-every][::-1]
