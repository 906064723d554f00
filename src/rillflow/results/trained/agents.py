"""Trained policies of several agents: act with them, evaluate them, save them together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rillflow.envs.multiagent_mapping import make_multi_agent_envs
from rillflow.errors import BuildError, RunError
from rillflow.experience.batch import Array
from rillflow.learning.config import AlgorithmConfig
from rillflow.results.trained.loading import load
from rillflow.results.trained.policy import Trained, check_whole, env_to_play, thinned
from rillflow.safety.bounded import read_json
from rillflow.scheduler.stats import RunStats

FILE = "agents.json"
_COPIES = 20
"""environments that are evaluated side by side"""

Acting = Callable[[str, Array], Array]
"""actions of the policy of this name for some observations"""


class TrainedAgents:
    """The policies that act in one environment; `history` has a row per result."""

    def __init__(
        self,
        policies: Mapping[str, Trained],
        agents: Mapping[str, str],
        history: list[dict[str, float]],
        stats: RunStats | None = None,
    ) -> None:
        self.policies = dict(policies)
        self.agents = dict(agents)
        """for each agent the name of its policy"""
        self.history = history
        self.stats = stats
        """per operator rates and the verdict on the bottleneck; `print` it. None: it was loaded"""

    @property
    def config(self) -> AlgorithmConfig:
        """What all policies were trained with, but for how many environments each has."""
        return next(iter(self.policies.values())).config

    def act(self, obs: Mapping[str, Array]) -> dict[str, Array]:
        """For each agent that sees something, its most likely action."""
        return {agent: self.policies[self.agents[agent]].act(seen) for agent, seen in obs.items()}

    def evaluate(self, episodes: int = 20, *, seed: int = 1) -> dict[str, list[float]]:
        """For each policy the returns of whole episodes of each of its agents, acting greedily."""
        played = self.play(episodes, lambda name, obs: self.policies[name].act(obs), seed=seed)
        return {name: [total for total, _ in own] for name, own in played.items()}

    def play(
        self, episodes: int, act: Acting, *, seed: int, max_steps: int = 100_000
    ) -> dict[str, list[tuple[float, int]]]:
        """For each policy, return and length of `episodes` episodes of each of its agents.

        Each environment plays its share to the end: the first to finish would be the short ones.
        """
        check_whole("episodes", episodes)
        for trained in self.policies.values():
            env_to_play(trained)
        count = min(episodes, _COPIES)
        share = np.full(count, episodes // count) + (np.arange(count) < episodes % count)
        envs = make_multi_agent_envs(
            self.config.env, count, self.agents, seed=seed, env_config=self.config.env_config
        )
        played: dict[str, list[list[tuple[float, int]]]]
        played = {name: [[] for _ in range(envs.rows(name))] for name in envs.groups}
        left = {name: np.tile(share, envs.rows(name) // count) for name in envs.groups}
        try:
            obs = envs.reset()
            for _ in range(max_steps * int(share.max())):
                steps = envs.step({name: act(name, seen) for name, seen in obs.items()})
                for name, episodes_now in envs.pop_episodes().items():
                    # those that ended with this step are told in the order of the rows
                    rows = np.flatnonzero(steps[name].terminated | steps[name].truncated)
                    for row, episode in zip(rows, episodes_now, strict=True):
                        if left[name][row]:
                            left[name][row] -= 1
                            played[name][row].append((float(episode[0]), int(episode[1])))
                if not any(own.any() for own in left.values()):
                    break
                obs = {name: step.obs for name, step in steps.items()}
            else:
                raise RunError(
                    f"evaluate: episodes of {envs.name!r} did not end in {max_steps} steps: give "
                    "the environment a limit, or a larger max_steps."
                )
        finally:
            envs.close()
        return {name: [e for row in rows for e in row] for name, rows in played.items()}

    def save(self, directory: str | Path) -> None:
        """A file for each policy, as `Trained.save` writes it, and one that says who is who."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name, trained in self.policies.items():
            trained.save(directory / f"{name}.npz")
        part = directory / f".{FILE}.part"
        part.write_text(json.dumps({"agents": self.agents, "history": thinned(self.history)}))
        part.replace(directory / FILE)

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        env: Any = None,
        model: Any = None,
        trust: Collection[str] = (),
    ) -> TrainedAgents:
        """What `save` wrote; `env`, `model` and `trust` as for `rf.load`."""
        try:
            about = read_json(Path(directory) / FILE)
            agents, history = dict(about["agents"]), list(about["history"])
            wrong = [name for name in agents.values() if not re.fullmatch(r"\w[\w.-]*", str(name))]
            if wrong:  # a file elsewhere
                raise ValueError(f"{wrong[0]!r} is no name of a policy")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BuildError(
                f"{str(directory)!r} has no policies of several agents ({FILE}: {error})."
            ) from None
        policies = {
            name: load(Path(directory) / f"{name}.npz", env=env, model=model, trust=trust)
            for name in dict.fromkeys(agents.values())
        }
        return cls(policies, agents, history)
