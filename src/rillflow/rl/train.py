"""Operators that learn: in the driver, or with gradients computed inside the workers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.batch import SampleBatch
from rillflow.ops.context import Context, Operator
from rillflow.rl.pairs import unpaired
from rillflow.rl.results import Gradients, Learned, RowStats, TrainStats
from rillflow.rl.weights import published_of
from rillflow.rl.workers import Workers

if TYPE_CHECKING:
    from rillflow.rl.learner import Learner


def learner_of(workers: Workers, ctx: Context) -> Learner:
    """The one learner that the operators of a run share; made by the first that asks."""

    def make() -> Learner:
        from rillflow.rl.learner import Learner  # torch is imported where learning happens

        return Learner(workers.spec, workers.config, workers.seed(ctx.seed))

    return ctx.shared(workers.learner_key, make)


class TrainOneStep(Operator[Any, TrainStats]):
    """Learn from a batch in the driver, then publish the new weights to all workers.

    What a learner on its own thread has trained already is not trained again: it is counted, and
    its weights are published.
    """

    def __init__(
        self, workers: Workers, *, num_sgd_iter: int = 1, sgd_minibatch_size: int | None = None
    ) -> None:
        self.workers = workers
        self.num_sgd_iter = num_sgd_iter
        self.sgd_minibatch_size = sgd_minibatch_size

    def on_start(self, ctx: Context) -> None:
        """Workers begin with the learner's weights."""
        published_of(self.workers, ctx).send(ctx, self.workers, self.workers.actors)

    def __call__(self, item: SampleBatch | Learned | Any, ctx: Context) -> TrainStats:
        """Train, mark, publish."""
        item = unpaired(item)
        published = published_of(self.workers, ctx)
        result: TrainStats
        if isinstance(item, Learned):
            published.renew(item.weights, item.version)
            result = RowStats(item.steps, item.stats, item.rows)
        else:
            learner = learner_of(self.workers, ctx)
            result = learner.train(item, self.num_sgd_iter, self.sgd_minibatch_size)
            published.renew(learner.get_weights(), learner.version)
        ctx.mark("trained")
        if not published.on_demand:
            published.send(ctx, self.workers, self.workers.actors)
        return dataclasses.replace(result, policy=self.workers.policy)


class ComputeGradients(Operator[SampleBatch, Gradients]):
    """Gradients of a batch, inside the worker that made it: `rollouts.par_for_each(...)`."""

    def __call__(self, batch: SampleBatch, ctx: Context) -> Gradients:
        """Gradients with the weights of the actor it runs in."""
        gradients: Gradients = ctx.actor.compute_gradients(unpaired(batch))
        return gradients


class ApplyGradients(Operator[Any, TrainStats]):
    """One optimiser step in the driver; the new weights go to whoever made the gradients."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def on_start(self, ctx: Context) -> None:
        """Workers begin with the learner's weights."""
        published_of(self.workers, ctx).send(ctx, self.workers, self.workers.actors)

    def __call__(self, gradients: Gradients | Any, ctx: Context) -> TrainStats:
        """Step, mark, answer."""
        learner = learner_of(self.workers, ctx)
        result = learner.apply_gradients(unpaired(gradients))
        ctx.mark("trained")
        published = published_of(self.workers, ctx)
        published.renew(learner.get_weights(), learner.version)
        published.send(ctx, self.workers, ctx.sources)
        return dataclasses.replace(result, policy=self.workers.policy)


class AverageGradients(Operator[list[Gradients], Gradients]):
    """The mean of several gradients, weighted by the steps they were made from.

    >>> one, three = Gradients({"w": np.zeros(1)}, 1, {}), Gradients({"w": np.full(1, 4.0)}, 3, {})
    >>> AverageGradients()([one, three]).values["w"]
    array([3.])
    """

    def __call__(self, gradients: list[Gradients]) -> Gradients:
        """One gradient for all."""
        steps = sum(g.steps for g in gradients)
        values: dict[str, Any] = {
            name: sum(np.asarray(g.values[name]) * (g.steps / steps) for g in gradients)
            for name in gradients[0].values
        }
        stats = {
            name: sum(g.stats[name] * (g.steps / steps) for g in gradients)
            for name in gradients[0].stats
        }
        return Gradients(values, steps, stats)
