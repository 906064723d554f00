"""What one evaluation of a run plays: whole episodes, with the weights of one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rillflow.learning.results import DEFAULT_POLICY
from rillflow.results.play_episodes import Watch
from rillflow.results.trained import Trained, TrainedAgents

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig
    from rillflow.policies.spec import PolicySpec
    from rillflow.results.evaluation import Evaluation

Weights = Mapping[str, Mapping[str, Any]]
"""of each policy, its arrays by name"""
Played = dict[str, "Evaluation"]
"""by policy"""

SEED = 1
"""of the environments, as `rillflow evaluate` has it: every evaluation meets the same episodes"""


@dataclass(frozen=True)
class Task:
    """What is played: the policies with their settings, in how many episodes."""

    policies: Mapping[str, tuple[AlgorithmConfig, PolicySpec]]
    agents: Mapping[str, str] | None
    """for each of several agents the name of its policy"""
    episodes: int


class Evaluator:
    """Plays with the weights it is given, in environments that it makes each time."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def play(self, weights: Weights, watch: Watch = int) -> Played:
        """Whole episodes, greedily."""
        from rillflow.results.evaluation import evaluate, evaluate_agents

        task = self.task
        trained = {
            name: Trained(config, spec, dict(weights[name]), [])
            for name, (config, spec) in task.policies.items()
        }
        how: Any = {"seed": SEED, "watch": watch}
        if task.agents is None:
            return {DEFAULT_POLICY: evaluate(trained[DEFAULT_POLICY], task.episodes, **how)}
        return evaluate_agents(TrainedAgents(trained, task.agents, []), task.episodes, **how)
