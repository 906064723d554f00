"""How weights get from the learner to the workers: as immutable, numbered snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from rillflow.experience.batch import Array
from rillflow.graph.context import Context, Operator
from rillflow.graph.handles import ActorHandle, Actors
from rillflow.learning.results import Learned
from rillflow.rl.workers import Workers
from rillflow.types import Ref

T = TypeVar("T")


class Published:
    """The newest weights of a policy, serialised once per version."""

    def __init__(self, workers: Workers, weights: Mapping[str, Array]) -> None:
        self.workers = workers
        self.weights = weights
        self.version = 0
        self.on_demand = False
        """whether an `UpdateWorkerWeights` of the flow sends them, instead of who made them"""
        self._ref: Ref | None = None

    def renew(self, weights: Mapping[str, Array], version: int) -> None:
        """These are newer."""
        self.weights, self.version, self._ref = weights, version, None

    def publish(self, learned: Learned, ctx: Context) -> None:
        """These are newer: send them to all workers, or keep them ready for who will."""
        if learned.weights is None:
            return
        self.renew(learned.weights, learned.version)
        if not self.on_demand:
            self.send(ctx, self.workers.actors)

    def send(self, ctx: Context, to: Actors | ActorHandle | Iterable[ActorHandle]) -> None:
        """Send them to workers; whoever has this version already is passed over."""
        if self._ref is None:
            self._ref = ctx.defer(self.workers.message(self.weights))
        key = self.workers.weights_key
        ctx.send(to, "set_weights", self._ref, version=self.version, key=key)

    def get_state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"weights": dict(self.weights), "version": self.version}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.renew(dict(state["weights"]), int(state["version"]))


def published_of(workers: Workers, ctx: Context) -> Published:
    """What the operators of a run share; at first the weights that the workers begin with."""

    def make() -> Published:
        return Published(workers, workers.first_weights(ctx.seed))

    return ctx.shared(workers.weights_key, make)


class UpdateWorkerWeights(Operator[Any, Any]):
    """Send the newest weights to the workers that made an item, and pass the item on.

    >>> from rillflow.algorithms import apex
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(apex.Config(num_workers=2))
    >>> rollouts = ParallelRollouts(workers, mode="async").for_each(UpdateWorkerWeights(workers))
    >>> [batch.shape for batch in rollouts.take(2, engine="sim")]
    [(12, 8), (12, 8)]

    With `delay`, only after a worker has made so many steps since it was last sent weights; by
    default the `max_weight_sync_delay` of the workers' settings, or none if they have no such
    setting. A version that a worker has already is not sent again. In a flow with this operator
    weights are sent here alone: operators that train only keep them ready.
    """

    takes_ref = True

    def __init__(self, workers: Workers, delay: int | None = None) -> None:
        self.workers = workers
        if delay is None:
            delay = getattr(workers.config, "max_weight_sync_delay", 0)
        self.delay = delay
        self.steps: dict[str, int] = {}

    def on_start(self, ctx: Context) -> None:
        """Workers begin with the learner's weights."""
        published = published_of(self.workers, ctx)
        published.on_demand = True
        published.send(ctx, self.workers.actors)

    def __call__(self, item: T, ctx: Context) -> T:
        """Count a fragment of each of its workers."""
        published = published_of(self.workers, ctx)
        for actor in ctx.sources:
            # by name, not by uid: a plan that is built again goes on from a saved state
            name = f"{actor.group.name}-{actor.index}"
            steps = self.steps.get(name, 0) + self.workers.config.fragment_steps
            if steps >= self.delay:
                steps = 0
                published.send(ctx, actor)
            self.steps[name] = steps
        return item
