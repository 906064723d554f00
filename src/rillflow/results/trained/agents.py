"""Trained policies of several agents: act with them, evaluate them, save them together."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rillflow.errors import BuildError
from rillflow.experience.batch import Array
from rillflow.files import write_json
from rillflow.learning.config import AlgorithmConfig
from rillflow.results.trained.policy import Trained, thinned
from rillflow.results.trained.policy_file import load
from rillflow.safety.bounded import read_json
from rillflow.scheduler.stats import RunStats

FILE = "agents.json"


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
        self.best: TrainedAgents | None = None
        """of what `train` returns: the best policies of the run, where they were judged"""

    def __repr__(self) -> str:
        from rillflow.results.player import env_name

        env = env_name(next(iter(self.policies.values())))
        return f"<policies trained on {env}: {', '.join(self.policies)}>"

    @property
    def config(self) -> AlgorithmConfig:
        """What all policies were trained with, but for how many environments each has."""
        return next(iter(self.policies.values())).config

    def act(self, obs: Mapping[str, Array]) -> dict[str, Array]:
        """For each agent that sees something, its most likely action."""
        return {agent: self.policies[self.agents[agent]].act(seen) for agent, seen in obs.items()}

    def evaluate(self, episodes: int = 20, *, seed: int = 1) -> dict[str, list[float]]:
        """For each policy the returns of whole episodes of each of its agents, acting greedily."""
        from rillflow.results.evaluation import evaluate_agents

        found = evaluate_agents(self, episodes, seed=seed)
        return {name: list(own.returns) for name, own in found.items()}

    def save(self, directory: str | Path) -> None:
        """A file for each policy, as `Trained.save` writes it, and one that says who is who."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name, trained in self.policies.items():
            trained.save(directory / f"{name}.npz")
        write_json(directory / FILE, {"agents": self.agents, "history": thinned(self.history)})

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
            agents, history = dict(about["agents"]), [_row(row) for row in about["history"]]
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


def _row(row: Mapping[str, float | None]) -> dict[str, float]:
    """Figures as they were: JSON has none that is not a number."""
    return {name: math.nan if value is None else value for name, value in row.items()}
