"""A learner in the driver, on a thread or in a process of its own, between two queues."""

from __future__ import annotations

import os
from typing import Any

from rillflow.experience.batch import SampleBatch
from rillflow.graph.handles import Background, Queue
from rillflow.learning.make_learner import AnyLearner, learns_in_numpy, make_learner
from rillflow.learning.results import Learned
from rillflow.rl.actor_item_pairs import Paired, unpaired
from rillflow.rl.faults import learner_policy
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo, Placement


class Learn:
    """Learns from each batch that comes; one of `weights_every` results carries the weights."""

    def __init__(self, workers: Workers, weights_every: int) -> None:
        self.workers = workers
        self.weights_every = weights_every
        self.seed = 0
        self.learner: AnyLearner | None = None
        self.first_version = 0
        """versions below were those of earlier incarnations: none is given twice"""

    def begin(self, info: ActorInfo) -> None:
        """Start from the weights that all operators of the run start from.

        The learner is made here, so that nobody samples for seconds while torch is imported.
        """
        self.seed = self.workers.seed(info.run_seed)
        self.first_version = info.asked if info.incarnation else 0
        self._learner().version = self.first_version

    def __call__(self, batch: Paired[SampleBatch]) -> Learned:
        """One optimiser step."""
        learner = self._learner()
        due = learner.version % self.weights_every == 0
        return learner.learn(unpaired(batch), with_weights=due)

    def _learner(self) -> AnyLearner:
        if self.learner is None:
            made = make_learner(self.workers.spec, self.workers.config, self.seed)
            self.learner = self.workers.begun(made)
        return self.learner

    def close(self) -> None:
        """End what the learner has started."""
        if self.learner is not None:
            self.learner.close()

    def get_state(self) -> dict[str, Any]:
        """The learner's."""
        return self._learner().get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        learner = self._learner()
        learner.set_state(state)
        learner.version = max(learner.version, self.first_version)


def fitting_placement(workers: Workers) -> Placement:
    """Where a learner that may live anywhere is best off on this machine.

    What NumPy learns from a batch takes little more time than to send it to a process and to take
    the weights back. Few workers leave the driver that time, and where they and the driver take up
    all cores, a process would only take it from them. The run on `sim` is the same either way.
    """
    count = workers.config.num_workers
    crowded = count + 2 > len(os.sched_getaffinity(0))
    small = count <= 2 and learns_in_numpy(workers.spec, workers.config)
    return "driver" if small and crowded else "process"


class LearnerThread(Background[Paired[SampleBatch], Learned]):
    """The learner of some workers on its own thread, between `inqueue` and `outqueue`.

    Put training batches on `inqueue` with `Enqueue`; what `Dequeue` takes from `outqueue` goes
    through `TrainOneStep`, which publishes the weights.

    >>> from rillflow.algorithms import a2c
    >>> from rillflow.flows.merge import Concurrently
    >>> from rillflow.flows.queues import Dequeue, Enqueue
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.train import TrainOneStep
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(a2c.Config())
    >>> learner = LearnerThread(workers)
    >>> sample_op = ParallelRollouts(workers, mode="async").for_each(Enqueue(learner.inqueue))
    >>> train_op = Dequeue(learner.outqueue).for_each(TrainOneStep(workers))
    >>> flow = Concurrently([sample_op, train_op], mode="async", output_indexes=[1])
    >>> len(flow.take(3, engine="sim"))
    3

    Each queue holds `queue_size` items (that of the results at least two); whoever fills a full one
    waits. With `placement="process"` it is an actor, and does not share Python's interpreter with
    the driver; with "driver" it learns when the driver has nothing else to do. The settings `cfg`
    of an algorithm may say both (`learner_queue_size`, `learner_placement`; None: what
    `fitting_placement` says), and that only one of `weights_every` results carries the new weights:
    a snapshot costs time, and workers need few of them. It updates its target network, if the
    algorithm has one, by itself. If it raises, the run ends; one whose process is lost, or hangs,
    comes back from its last snapshot (`rl/faults.py`), and what it had been given is dropped.
    """

    def __init__(
        self,
        workers: Workers,
        cfg: Any = None,
        *,
        queue_size: int = 16,
        placement: Placement = "thread",
    ) -> None:
        queue_size = getattr(cfg, "learner_queue_size", queue_size)
        placement = getattr(cfg, "learner_placement", placement) or fitting_placement(workers)
        super().__init__(
            Learn(workers, getattr(cfg, "weights_every", 1)),
            name="learner",
            inqueue=Queue(capacity=queue_size, name="learner.in"),
            # two at least: it has its next batch already while the driver takes its last result
            outqueue=Queue(capacity=max(2, queue_size), name="learner.out"),
            placement=placement,
            on_failure=learner_policy(workers.config, placement),
        )

    def start(self) -> None:
        """Nothing to do: it comes to life when a run starts."""
