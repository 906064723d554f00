"""Operators that learn: in the driver, or with gradients computed inside the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.batch import SampleBatch
from rillflow.ops.context import Context, Operator
from rillflow.rl.results import Gradients, TrainStats
from rillflow.rl.workers import Workers

if TYPE_CHECKING:
    from rillflow.rl.learner import Learner


def learner_of(workers: Workers, ctx: Context) -> Learner:
    """The one learner that the operators of a run share; made by the first that asks."""

    def make() -> Learner:
        from rillflow.rl.learner import Learner  # torch is imported where learning happens

        return Learner(workers.spec, workers.config, ctx.seed)

    return ctx.shared(workers.learner_key, make)


def publish(workers: Workers, ctx: Context, *, to_sources_only: bool = False) -> None:
    """Send the newest weights, serialised once, to all workers or to an item's sources."""
    learner = learner_of(workers, ctx)
    targets = ctx.sources if to_sources_only else workers.actors
    ctx.send(targets, "set_weights", ctx.put(learner.get_weights()), version=learner.version)


class TrainOneStep(Operator[SampleBatch, TrainStats]):
    """Learn from a batch in the driver, then publish the new weights to all workers."""

    def __init__(
        self, workers: Workers, *, num_sgd_iter: int = 1, sgd_minibatch_size: int | None = None
    ) -> None:
        self.workers = workers
        self.num_sgd_iter = num_sgd_iter
        self.sgd_minibatch_size = sgd_minibatch_size

    def on_start(self, ctx: Context) -> None:
        """Workers begin with the learner's weights."""
        publish(self.workers, ctx)

    def __call__(self, batch: SampleBatch, ctx: Context) -> TrainStats:
        """Train, mark, publish."""
        learner = learner_of(self.workers, ctx)
        stats = learner.train(batch, self.num_sgd_iter, self.sgd_minibatch_size)
        ctx.mark("trained")
        publish(self.workers, ctx)
        return stats


class ComputeGradients(Operator[SampleBatch, Gradients]):
    """Gradients of a batch, inside the worker that made it: `rollouts.par_for_each(...)`."""

    def __call__(self, batch: SampleBatch, ctx: Context) -> Gradients:
        """Gradients with the weights of the actor it runs in."""
        gradients: Gradients = ctx.actor.compute_gradients(batch)
        return gradients


class ApplyGradients(Operator[Gradients, TrainStats]):
    """One optimiser step in the driver; the new weights go to whoever made the gradients."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def on_start(self, ctx: Context) -> None:
        """Workers begin with the learner's weights."""
        publish(self.workers, ctx)

    def __call__(self, gradients: Gradients, ctx: Context) -> TrainStats:
        """Step, mark, answer."""
        stats = learner_of(self.workers, ctx).apply_gradients(gradients)
        ctx.mark("trained")
        publish(self.workers, ctx, to_sources_only=True)
        return stats


class AverageGradients(Operator[list[Gradients], Gradients]):
    """The mean of several gradients, weighted by the steps they were made from."""

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
