"""What a run has learned so far: its newest weights, and the policies they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.errors import RunError
from rillflow.learning.results import DEFAULT_POLICY
from rillflow.policies.saved import load_policy
from rillflow.results.trained import Trained, TrainedAgents
from rillflow.rl.multi_agent import MultiAgentWorkers
from rillflow.rl.workers import Workers
from rillflow.runs.evaluator import Task, Weights

if TYPE_CHECKING:
    from rillflow.scheduler.run import Run

Rows = Callable[[], list[dict[str, float]]]


class Learned:
    """The policies of one run, one or several.

    Args:
        workers: of the run.
        run: not begun, or under way.
        rows: gives its history.
    """

    def __init__(self, workers: Workers | MultiAgentWorkers, run: Run[Any], rows: Rows) -> None:
        self._run, self.rows = run, rows
        self._workers: Mapping[str, Workers] = {}
        self.agents: dict[str, str] | None = None
        """for each of several agents the name of its policy"""
        if isinstance(workers, MultiAgentWorkers):
            self._workers = workers.policies
            agents = workers.config.policy_mapping
            assert isinstance(agents, Mapping), "as `build_agents` made it"
            self.agents = dict(agents)
        else:
            self._workers = {DEFAULT_POLICY: workers}

    def weights(self) -> Weights:
        """Those of each policy as they are now, which nobody changes any more."""
        return {name: self._published(own) for name, own in self._workers.items()}

    def _published(self, workers: Workers) -> Mapping[str, Any]:
        if workers.weights_key not in self._run.shared:
            raise RunError("nothing in this plan publishes weights, as TrainOneStep does.")
        found: Mapping[str, Any] = self._run.shared[workers.weights_key].weights
        return found

    def policy(self) -> Any:
        """A copy of what was learned so far: `Trained`; of several agents, `TrainedAgents`."""
        return self.made_of(self.weights(), self._run.stats())

    def made_of(self, weights: Weights, stats: Any = None) -> Any:
        """The same, with these weights."""
        several = self.agents is not None
        policies = {
            name: Trained(
                own.config,
                own.spec,
                {key: array.copy() for key, array in weights[name].items()},
                [] if several else self.rows(),
                None if several else stats,
            )
            for name, own in self._workers.items()
        }
        if self.agents is None:
            return policies[DEFAULT_POLICY]
        return TrainedAgents(policies, self.agents, self.rows(), stats)

    def read(self, path: Path) -> Weights:
        """The weights in the file of a policy of this run, or in the directory of several."""
        found = {}
        for name, own in self._workers.items():
            file = path if self.agents is None else path / f"{name}.npz"
            model = None if isinstance(own.spec.model, str) else own.spec.model
            found[name] = load_policy(file, model)[1]
        return found

    def shape(self) -> tuple[Any, Any]:
        """Settings and spec of the one policy."""
        own = self._workers[DEFAULT_POLICY]
        return own.config, own.spec

    def task(self, episodes: int) -> Task:
        """To play with these policies in so many episodes."""
        shapes = {name: (own.config, own.spec) for name, own in self._workers.items()}
        return Task(shapes, self.agents, episodes)
