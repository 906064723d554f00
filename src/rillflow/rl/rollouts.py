"""Streams of experience from rollout workers, and operators that shape batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from rillflow.errors import BuildError
from rillflow.experience.batch import MultiAgentBatch, SampleBatch
from rillflow.flows.flow import Flow
from rillflow.flows.parallel import ParallelFlow
from rillflow.flows.sources import from_actors
from rillflow.graph.context import Operator
from rillflow.rl.actor_item_pairs import Paired, unpaired
from rillflow.rl.workers import AnyWorkers, Workers

if TYPE_CHECKING:
    from rillflow.rl.multi_agent import MultiAgentWorkers

Rollouts = ParallelFlow[SampleBatch] | Flow[SampleBatch]
"""what a plan takes: experience inside the workers, or gathered already"""


@overload
def ParallelRollouts(workers: Workers) -> ParallelFlow[SampleBatch]: ...
@overload
def ParallelRollouts(workers: MultiAgentWorkers) -> ParallelFlow[MultiAgentBatch]: ...
@overload
def ParallelRollouts(workers: AnyWorkers) -> ParallelFlow[Any]: ...
@overload
def ParallelRollouts(
    workers: Workers, *, mode: Literal["bulk_sync", "async"], num_async: int = 1
) -> Flow[SampleBatch]: ...
@overload
def ParallelRollouts(
    workers: MultiAgentWorkers, *, mode: Literal["bulk_sync", "async"], num_async: int = 1
) -> Flow[MultiAgentBatch]: ...
@overload
def ParallelRollouts(
    workers: AnyWorkers, *, mode: Literal["bulk_sync", "async"], num_async: int = 1
) -> Flow[Any]: ...
def ParallelRollouts(  # noqa: N802 - an operator, under the paper's name
    workers: AnyWorkers,
    *,
    mode: Literal["bulk_sync", "async"] | None = None,
    num_async: int = 1,
) -> ParallelFlow[Any] | Flow[Any]:
    """Experience of all workers: a parallel flow, or gathered.

    >>> from rillflow.algorithms import ppo
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(ppo.Config(num_workers=2, num_envs_per_worker=4))
    >>> (batch,) = ParallelRollouts(workers, mode="bulk_sync").take(1, engine="sim")
    >>> batch["obs"].shape  # steps, environments of both workers, numbers in an observation
    (128, 8, 4)

    `bulk_sync`: one concatenated batch per round. `async`: fragments as they are ready.
    """
    rollouts: ParallelFlow[Any] = from_actors(
        workers.actors, "sample", concat=workers.concat, label="rollouts"
    )
    if mode is None:
        return rollouts
    if mode == "bulk_sync":
        return rollouts.gather_sync().for_each(workers.concat)
    if mode == "async":
        return rollouts.gather_async(num_async=num_async)
    raise BuildError(f"ParallelRollouts: unknown mode {mode!r}; choose 'bulk_sync' or 'async'.")


def bulk_sync(rollouts: Rollouts) -> Flow[SampleBatch]:
    """One concatenated batch per round of all workers; what is gathered already stays as it is."""
    if isinstance(rollouts, Flow):
        return rollouts
    return rollouts.gather_sync().for_each(SampleBatch.concat)


def as_ready(rollouts: Rollouts, num_async: int = 1) -> Flow[SampleBatch]:
    """Batches as workers have them ready; what is gathered already stays as it is."""
    return rollouts if isinstance(rollouts, Flow) else rollouts.gather_async(num_async=num_async)


class ConcatBatches(Operator[Paired[SampleBatch], list[SampleBatch]]):
    """For `combine`: collect at least `min_batch_size` rows, then give one batch.

    >>> fragment = SampleBatch({"rewards": np.ones((10, 4))})
    >>> concat = ConcatBatches(min_batch_size=100)
    >>> [len(concat(fragment)) for _ in range(3)]
    [0, 0, 1]

    Rows that only reset an environment count: rounds that add up to `min_batch_size` are enough
    even if an episode ended in one of them.
    """

    way_in = (
        'ParallelRollouts(workers, mode="bulk_sync") gives one batch for each round of the workers.'
    )

    def __init__(self, min_batch_size: int) -> None:
        self.min_batch_size = min_batch_size
        self.parts: list[SampleBatch] = []

    def __call__(self, batch: Paired[SampleBatch]) -> list[SampleBatch]:
        """Nothing yet, or one batch."""
        self.parts.append(unpaired(batch))
        if sum(time * envs for time, envs in (p.shape for p in self.parts)) < self.min_batch_size:
            return []
        parts, self.parts = self.parts, []
        return [SampleBatch.concat(parts)]

    def get_state(self) -> dict[str, object]:
        """The parts collected so far, as plain columns."""
        return {"parts": [dict(part) for part in self.parts]}

    def set_state(self, state: dict[str, object]) -> None:
        """Go on collecting from there."""
        parts = state["parts"]
        assert isinstance(parts, list)
        self.parts = [SampleBatch(part) for part in parts]


class StandardizeFields(Operator[Paired[SampleBatch], SampleBatch]):
    """Columns with mean 0 and standard deviation 1; the batch it was given stays as it is.

    >>> batch = SampleBatch({"rewards": np.array([[1.0, 3.0]])})
    >>> StandardizeFields(["rewards"])(batch)["rewards"]
    array([[-1.,  1.]])
    """

    def __init__(self, fields: list[str]) -> None:
        self.fields = fields

    def __call__(self, batch: Paired[SampleBatch]) -> SampleBatch:
        """The batch with those columns standardised."""
        found, columns = unpaired(batch), {}
        for name in self.fields:
            column = found[name]
            columns[name] = (column - column.mean()) / max(1e-4, float(np.std(column)))
        return found.with_columns(**columns)
