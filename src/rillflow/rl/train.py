"""Operators that learn: in the driver, or with gradients computed inside the workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from rillflow.experience.batch import SampleBatch
from rillflow.graph.context import Context, Operator
from rillflow.learning.make_learner import AnyLearner, make_learner
from rillflow.learning.results import Gradients, Learned, RowStats, TrainStats
from rillflow.policies.normalizer import Moments, as_buffers, moments_in
from rillflow.rl.actor_item_pairs import Paired, unpaired
from rillflow.rl.weights import published_of
from rillflow.rl.workers import Workers


def learner_of(workers: Workers, ctx: Context) -> AnyLearner:
    """The one learner that the operators of a run share; made by the first that asks."""

    def make() -> AnyLearner:
        seed = workers.seed(ctx.seed)
        return workers.begun(make_learner(workers.spec, workers.config, seed))

    return ctx.shared(workers.learner_key, make)


class TrainOneStep(Operator[Paired[SampleBatch | Learned], RowStats]):
    """Learn from a batch in the driver, then publish the new weights to all workers.

    >>> from rillflow.algorithms import a2c
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(a2c.Config(num_workers=2))
    >>> train_op = ParallelRollouts(workers, mode="bulk_sync").for_each(TrainOneStep(workers))
    >>> sorted(train_op.take(1, engine="sim")[0].stats)
    ['entropy', 'policy_loss', 'value_loss']

    `num_sgd_iter` passes over the batch, in shuffled minibatches of `sgd_minibatch_size` rows, or
    the whole batch at once; if replay has drawn several training batches at once, a step for each.
    What a learner on its own thread has trained already is not trained again: it is counted, and
    its weights are published. If the flow has an `UpdateWorkerWeights`, the new weights are kept
    ready for it instead of being sent. The ledger counts the item as trained.
    """

    def __init__(
        self, workers: Workers, *, num_sgd_iter: int = 1, sgd_minibatch_size: int | None = None
    ) -> None:
        self.workers = workers
        self.passes = num_sgd_iter, sgd_minibatch_size

    def on_start(self, ctx: Context) -> None:
        """Workers begin with the learner's weights."""
        published_of(self.workers, ctx).send(ctx, self.workers.actors)

    def __call__(self, item: Paired[SampleBatch | Learned], ctx: Context) -> RowStats:
        """Train, mark, publish."""
        learned: Any = unpaired(item)
        if not isinstance(learned, Learned):
            learned = learner_of(self.workers, ctx).learn(learned, *self.passes)
        ctx.mark("trained")
        published_of(self.workers, ctx).publish(learned, ctx)
        result: RowStats = learned.result(self.workers.policy)
        return result


class ComputeGradients(Operator[Paired[SampleBatch], Gradients]):
    """Gradients of a batch, inside the worker that made it, with that worker's weights.

    >>> from rillflow.algorithms import a3c
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(a3c.Config(num_workers=2))
    >>> ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    Flow(gather_async)

    Some operator of the flow, such as `ApplyGradients`, sends the workers their first weights.
    """

    def __call__(self, batch: Paired[SampleBatch], ctx: Context) -> Gradients:
        """Gradients with the weights of the actor it runs in."""
        gradients: Gradients = ctx.actor.compute_gradients(unpaired(batch))
        return gradients


class ApplyGradients(Operator[Paired[Gradients], TrainStats]):
    """One optimiser step in the driver; the new weights go to whoever made the gradients.

    >>> from rillflow.algorithms import a3c
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(a3c.Config(num_workers=2))
    >>> grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    >>> with grads.for_each(ApplyGradients(workers)).run("sim") as run:
    ...     results = [next(run) for _ in range(3)]
    ...     run.shared[workers.learner_key].version
    3

    The ledger counts the item as trained.
    """

    way_in = (
        "Gradients are computed in the workers: "
        "ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()."
    )

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def on_start(self, ctx: Context) -> None:
        """Workers begin with the learner's weights."""
        published_of(self.workers, ctx).send(ctx, self.workers.actors)

    def __call__(self, gradients: Paired[Gradients], ctx: Context) -> TrainStats:
        """Step, mark, answer."""
        learner = learner_of(self.workers, ctx)
        result = learner.apply_gradients(unpaired(gradients))
        ctx.mark("trained")
        published = published_of(self.workers, ctx)
        published.renew(learner.get_weights(), learner.version)
        published.send(ctx, ctx.sources)
        return TrainStats(result.steps, result.stats, policy=self.workers.policy)


class AverageGradients(Operator[Paired[Sequence[Paired[Gradients]]], Gradients]):
    """The mean of several gradients, weighted by the steps they were made from.

    >>> one, three = Gradients({"w": np.zeros(1)}, 1, {}), Gradients({"w": np.full(1, 4.0)}, 3, {})
    >>> AverageGradients()([one, three]).values["w"]
    array([3.])

    Behind `batch(n)` or `gather_sync`, which give lists.
    """

    def __call__(self, items: Paired[Sequence[Paired[Gradients]]]) -> Gradients:
        """One gradient for all."""
        gradients = [unpaired(item) for item in unpaired(items)]
        steps = max(1, sum(g.steps for g in gradients))
        values: dict[str, Any] = {
            name: sum(np.asarray(g.values[name]) * (g.steps / steps) for g in gradients)
            for name in gradients[0].values
        }
        told = [g for g in gradients if g.stats]  # of nothing but resets there are no figures
        stats = {
            name: sum(g.stats[name] * (g.steps / steps) for g in told)
            for name in (told[0].stats if told else ())
        }
        return Gradients(values, steps, stats, _seen(gradients))


def _seen(gradients: Sequence[Gradients]) -> dict[str, Any] | None:
    """The statistics of the observations that all of them were made from, if they have them."""
    moments = [moments_in(g.seen) for g in gradients if g.seen is not None]
    return as_buffers(reduce(Moments.joined, moments)) if moments else None
