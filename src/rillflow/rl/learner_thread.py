"""A learner on a thread of its own, and how its weights reach the workers.

No thread reads live parameters of another: each result carries a snapshot of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rillflow.batch import Array, SampleBatch
from rillflow.graph.handles import Background
from rillflow.ops.context import Context, Operator
from rillflow.policies.make import make_actor
from rillflow.rl.q_learning import RowStats
from rillflow.rl.workers import Workers
from rillflow.types import Ref

if TYPE_CHECKING:
    from rillflow.rl.learner import Learner


@dataclass(frozen=True)
class Learned(RowStats):
    """A training result with the weights that it led to, which nobody changes any more."""

    weights: dict[str, Array]
    version: int


class LearnOnThread:
    """Learns from each batch and updates the target network, away from the driver."""

    def __init__(self, workers: Workers, target_freq: int) -> None:
        self.workers = workers
        self.target_freq = target_freq
        self.seed = 0
        self.since = 0
        self.learner: Learner | None = None

    def __call__(self, batch: SampleBatch) -> Learned:
        """One optimiser step."""
        learner = self._learner()
        result = learner.train(batch)
        assert isinstance(result, RowStats), "the loss gives errors of rows"
        self.since += result.steps
        if self.since >= self.target_freq:
            self.since %= self.target_freq
            learner.update_target()
        weights = learner.get_weights()
        return Learned(result.steps, result.stats, result.rows, weights, learner.version)

    def _learner(self) -> Learner:
        if self.learner is None:
            from rillflow.rl.learner import Learner

            self.learner = Learner(self.workers.spec, self.workers.config, self.seed)
        return self.learner

    def get_state(self) -> dict[str, Any]:
        """The learner's, and how long the target network has stood."""
        return {"seed": self.seed, "since": self.since, "learner": self._learner().get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from there; with a seed alone, begin."""
        self.seed, self.since = state["seed"], state.get("since", 0)
        self.learner = None
        if "learner" in state:
            self._learner().set_state(state["learner"])


class Published:
    """The newest weights that the learner has given out; serialised once per version."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self.weights = weights
        self.version = 0
        self._ref: Ref | None = None

    def renew(self, weights: dict[str, Array], version: int) -> None:
        """These are newer."""
        self.weights, self.version, self._ref = weights, version, None

    def ref(self, ctx: Context) -> Ref:
        """The weights, to be sent to any number of actors."""
        if self._ref is None:
            self._ref = ctx.put(self.weights)
        return self._ref

    def get_weights(self) -> dict[str, Array]:
        """A snapshot that later training does not change."""
        return self.weights

    def get_state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"weights": self.weights, "version": self.version}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.renew(dict(state["weights"]), int(state["version"]))


def published_of(workers: Workers, ctx: Context) -> Published:
    """What the operators of a run share; at first the weights that the run's seed gives."""

    def make() -> Published:
        return Published(make_actor(workers.spec, ctx.seed).get_weights())

    return ctx.shared(workers.learner_key, make)


class PublishWeights(Operator[Learned, RowStats]):
    """Keep the newest weights for whoever sends them on, and count what was trained."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def __call__(self, result: Learned, ctx: Context) -> RowStats:
        """The result without its weights."""
        published_of(self.workers, ctx).renew(result.weights, result.version)
        ctx.mark("trained")
        return RowStats(result.steps, result.stats, result.rows)


class UpdateWorkerWeights(Operator[Any, Any]):
    """Send the newest weights to the worker of an item, after so many steps of that worker."""

    takes_ref = True

    def __init__(self, workers: Workers, learner: Background, delay: int) -> None:
        self.workers = workers
        self.learner = learner
        self.delay = delay
        self.steps: dict[str, int] = {}

    def on_start(self, ctx: Context) -> None:
        """Learner and workers begin with the same weights."""
        published = published_of(self.workers, ctx)
        ctx.send(self.learner.actors, "set_state", {"seed": ctx.seed})
        ctx.send(self.workers.actors, "set_weights", published.ref(ctx), version=0)

    def __call__(self, item: Any, ctx: Context) -> Any:
        """Count a fragment of each of its workers."""
        config = self.workers.config
        fragment = config.rollout_fragment_length * config.num_envs_per_worker
        published = published_of(self.workers, ctx)
        for actor in ctx.sources:
            steps = self.steps.get(actor.uid, 0) + fragment
            if steps >= self.delay:
                steps = 0
                weights = published.ref(ctx)
                ctx.send(actor, "set_weights", weights, version=published.version)
            self.steps[actor.uid] = steps
        return item
