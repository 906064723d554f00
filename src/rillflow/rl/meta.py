"""Operators of meta-learning: adapt in the workers for some rounds, then learn from all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rillflow.envs.make import make_envs
from rillflow.envs.meta_tasks import sample_tasks
from rillflow.errors import BuildError
from rillflow.experience.batch import SampleBatch
from rillflow.graph.context import Context, Operator
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.results import TrainStats
from rillflow.rl.actor_item_pairs import Paired, unpaired
from rillflow.rl.weights import published_of
from rillflow.rl.workers import Workers
from rillflow.seeding import derive_seed

if TYPE_CHECKING:
    from rillflow.learning.meta_learner import MetaLearner

Rounds = list[SampleBatch]
"""the batches of one task, in the order in which its worker adapted"""


def meta_learner_of(workers: Workers, ctx: Context) -> MetaLearner:
    """The one learner that the operators of a run share; made by the first that asks."""

    def make() -> MetaLearner:
        # torch is imported where it is needed
        from rillflow.learning.meta_learner import MetaLearner

        seed = workers.seed(ctx.seed)
        return workers.begun(MetaLearner(workers.spec, workers.config, seed))

    return ctx.shared(workers.learner_key, make)


def check_workers(workers: Workers) -> None:
    """Refuse workers that cannot adapt, and environments that are no family of tasks."""
    if not hasattr(workers.actors.factory, "adapt"):
        raise BuildError(
            f"InnerAdapt and MetaUpdate need workers that can adapt to a task, and {workers!r} are "
            "not made for that. Make them with maml.Config(...), or with settings whose "
            "`worker` is a MetaWorker."
        )
    tasks_of(workers.config, 1, 0)


def tasks_of(config: AlgorithmConfig, count: int, seed: int) -> list[Any]:
    """`count` tasks of the environment in these settings, the same for the same seed.

    >>> from rillflow.algorithms import maml
    >>> goals = tasks_of(maml.Config(env="PointGoal"), 3, seed=0)
    >>> len(goals), goals[0].shape
    (3, (2,))
    """
    envs = make_envs(config.env, 1, **config.env_settings)
    try:
        return sample_tasks(envs, count, seed)
    finally:
        envs.close()


class InnerAdapt(Operator[Sequence[Paired[SampleBatch]], list[list[Rounds]]]):
    """For `combine`, behind `gather_sync`: let workers adapt `steps` times, then give all rounds.

    >>> from rillflow.algorithms import maml
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> workers = Workers(maml.Config(num_workers=3))
    >>> rounds = ParallelRollouts(workers).gather_sync()
    >>> train_op = rounds.combine(InnerAdapt(workers, steps=2)).for_each(MetaUpdate(workers))
    >>> [result.steps for result in train_op.take(1, engine="sim")] == [3 * 3 * 16 * 20]
    True

    Each worker adapts to its own last batch, which it has kept: no data is sent back. The barrier
    of `gather_sync` makes the next round one of adapted policies. A worker that was not there for
    all rounds is left out.
    """

    way_in = "Adapting goes in rounds of all workers: ParallelRollouts(workers).gather_sync()."

    def __init__(self, workers: Workers, steps: int = 1) -> None:
        if steps < 1:
            raise BuildError(f"InnerAdapt needs at least one step to adapt; got steps={steps!r}.")
        check_workers(workers)
        self.workers = workers
        self.steps = steps
        self.round = 0
        self.tasks: dict[str, Rounds] = {}

    def __call__(self, batches: Sequence[Paired[SampleBatch]], ctx: Context) -> list[list[Rounds]]:
        """Nothing but a message to the workers yet, or the rounds of every task."""
        for source, batch in zip(ctx.provenance, batches, strict=True):
            self.tasks.setdefault(source.actor, []).append(unpaired(batch))
        self.round += 1
        if self.round <= self.steps:
            ctx.send(ctx.sources, "adapt")
            return []
        complete = [task for task in self.tasks.values() if len(task) == self.round]
        self.tasks, self.round = {}, 0
        return [complete] if complete else []

    def get_state(self) -> dict[str, Any]:
        """The rounds collected so far, as plain columns."""
        tasks = {actor: [dict(b) for b in rounds] for actor, rounds in self.tasks.items()}
        return {"round": self.round, "tasks": tasks}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on collecting from there."""
        self.round = state["round"]
        self.tasks = {a: [SampleBatch(b) for b in rounds] for a, rounds in state["tasks"].items()}


class MetaUpdate(Operator[list[Rounds], TrainStats]):
    """Learn from the rounds of all tasks, then give the workers new meta-weights and new tasks.

    >>> from rillflow.algorithms import maml
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> workers = Workers(maml.Config(num_workers=2))
    >>> rounds = ParallelRollouts(workers).gather_sync().combine(InnerAdapt(workers, steps=1))
    >>> (result,) = rounds.for_each(MetaUpdate(workers)).take(1, engine="sim")
    >>> result.stats["return_before"] < 0  # on PointGoal: minus the distance, at every step
    True

    The ledger counts all rounds as trained.
    """

    way_in = "The rounds of all tasks come from .combine(InnerAdapt(workers))."

    def __init__(self, workers: Workers) -> None:
        check_workers(workers)
        self.workers = workers

    def on_start(self, ctx: Context) -> None:
        """Workers begin with the learner's weights, and a task each."""
        self._publish(ctx)

    def __call__(self, tasks: list[Rounds], ctx: Context) -> TrainStats:
        """Train, mark, publish."""
        learner = meta_learner_of(self.workers, ctx)
        result = learner.meta_train(tasks)
        ctx.mark("trained")
        published_of(self.workers, ctx).renew(learner.get_weights(), learner.version)
        self._publish(ctx)
        return dataclasses.replace(result, policy=self.workers.policy)

    def _publish(self, ctx: Context) -> None:
        published, actors = published_of(self.workers, ctx), self.workers.actors
        published.send(ctx, actors)
        seed = derive_seed(self.workers.seed(ctx.seed), "tasks", published.version)
        ctx.send(actors, "draw_task", seed, key=f"task {self.workers.uid}")
