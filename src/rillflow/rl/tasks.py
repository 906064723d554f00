"""Tasks on actors: a function of one's own, run inside each worker, next to its environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rillflow.callables import label_of
from rillflow.flows.parallel import ParallelFlow
from rillflow.flows.sources import from_actors
from rillflow.graph.annotations import wants_context
from rillflow.graph.context import Context, Operator
from rillflow.rl.workers import AnyWorkers

T = TypeVar("T")


class RunTask(Operator[int, Any]):
    """Call a task with the worker that it runs in, in turn after turn."""

    def __init__(self, task: Callable[..., Any]) -> None:
        self.task = task
        self.label = f"RunTask({label_of(task)})"
        self._with_context = wants_context(task)

    def __call__(self, turn: int, ctx: Context) -> Any:
        """What the task gives in this turn."""
        if self._with_context:
            return self.task(ctx.actor, turn, ctx=ctx)
        return self.task(ctx.actor, turn)


def ParallelTasks(  # noqa: N802 - an operator, named as the paper's are
    workers: AnyWorkers, task: Callable[..., T]
) -> ParallelFlow[T]:
    """What `task(worker, turn)` gives, in each worker, turn after turn.

    >>> from rillflow.algorithms import ppo
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(ppo.Config(num_workers=2, num_envs_per_worker=4))
    >>> def where(worker, turn): return worker.info.index, turn, worker.envs.num_envs
    >>> ParallelTasks(workers, where).gather_sync().take(2, engine="sim")
    [[(0, 0, 4), (1, 0, 4)], [(0, 1, 4), (1, 1, 4)]]

    The function is shipped to the workers; `worker` has `envs`, `policy`, `play`, `config` and
    `info`, and keeps what is written to it. With a parameter `ctx` it is given the context, too.
    Evolution strategies evaluate perturbations this way, population-based training exploits and
    explores.
    """
    turns: ParallelFlow[int] = from_actors(workers.actors, "next_turn", label="turns")
    return turns.par_for_each(RunTask(task))
